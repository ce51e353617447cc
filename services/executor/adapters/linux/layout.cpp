#include "services/executor/adapters/linux/layout.hpp"

#include "libs/base/random.hpp"

namespace nodus::executor {

Layout::Layout(const std::filesystem::path& state_directory)
    : state(std::filesystem::absolute(state_directory).lexically_normal()),
      label("n" + sha256_hex(state.native()).substr(0, 6)) {}

}  // namespace nodus::executor
