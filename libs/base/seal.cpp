#include "libs/base/seal.hpp"

#include <openssl/evp.h>

#include <memory>

#include "libs/base/check.hpp"
#include "libs/base/random.hpp"

namespace nodus {

namespace {

constexpr size_t kNonceBytes = 12;
constexpr size_t kTagBytes = 16;

using Cipher = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

std::string seal(std::string_view key, std::string_view about, std::string_view plain) {
  CHECK(key.size() == kSealKeyBytes, "a key of {} bytes", key.size());
  const std::string nonce = random_bytes(kNonceBytes);
  std::string out(plain.size(), '\0');
  std::string tag(kTagBytes, '\0');
  const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int size = 0;
  const bool done =
      cipher &&
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key), bytes_of(nonce)) == 1 &&
      EVP_EncryptUpdate(cipher.get(), nullptr, &size, bytes_of(about), static_cast<int>(about.size())) == 1 &&
      EVP_EncryptUpdate(cipher.get(), bytes_of(out), &size, bytes_of(plain),
                        static_cast<int>(plain.size())) == 1 &&
      EVP_EncryptFinal_ex(cipher.get(), bytes_of(out) + size, &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1;
  CHECK(done, "AES-256-GCM is missing");
  return nonce + out + tag;
}

Result<std::string> unseal(std::string_view key, std::string_view about, std::string_view sealed) {
  const auto wrong = [] {
    return fail(Code::kInternal, "Unsealable", "What is sealed here does not open with this key.");
  };
  if (key.size() != kSealKeyBytes || sealed.size() < kNonceBytes + kTagBytes) return wrong();
  const std::string_view nonce = sealed.substr(0, kNonceBytes);
  const std::string_view body = sealed.substr(kNonceBytes, sealed.size() - kNonceBytes - kTagBytes);
  std::string tag(sealed.substr(sealed.size() - kTagBytes));
  std::string out(body.size(), '\0');
  const Cipher cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  int size = 0;
  const bool opened =
      cipher &&
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key), bytes_of(nonce)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &size, bytes_of(about), static_cast<int>(about.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), bytes_of(out), &size, bytes_of(body), static_cast<int>(body.size())) ==
          1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), bytes_of(out) + size, &size) == 1;
  if (!opened) return wrong();
  return out;
}

}  // namespace nodus
