#include "libs/base/sha256.hpp"

#include <openssl/evp.h>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"

namespace nodus {

struct Sha256Sum::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256Sum::Sha256Sum() : state_(std::make_unique<State>()) {
  CHECK(state_->context && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
        "SHA-256 has no memory");
}
Sha256Sum::~Sha256Sum() = default;
Sha256Sum::Sha256Sum(Sha256Sum&&) noexcept = default;
Sha256Sum& Sha256Sum::operator=(Sha256Sum&&) noexcept = default;

void Sha256Sum::add(std::string_view bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Sha256Sum::hex() const {
  const State copy;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  CHECK(EVP_MD_CTX_copy_ex(copy.context, state_->context) == 1 &&
            EVP_DigestFinal_ex(copy.context, digest, &size) == 1,
        "SHA-256 has no memory");
  return to_hex({reinterpret_cast<const char*>(digest), size});
}

}  // namespace nodus
