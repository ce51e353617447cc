// What both transports promise: tests that run on `log` and on `kafka` with a real broker. The value is the
// kind.
#pragma once

#include <string>

#include "tests/integration/bus/world.hpp"

namespace nodus::bus::test {

class BusContract : public testing::TestWithParam<std::string> {
 protected:
  World world{GetParam()};
};

}  // namespace nodus::bus::test
