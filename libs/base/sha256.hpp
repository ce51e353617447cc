// SHA-256 of bytes that come in pieces.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace nodus {

class Sha256Sum {
 public:
  Sha256Sum();
  ~Sha256Sum();
  Sha256Sum(Sha256Sum&&) noexcept;
  Sha256Sum& operator=(Sha256Sum&&) noexcept;
  void add(std::string_view bytes);
  std::string hex() const;  // 64 lowercase hex digits, of what came so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nodus
