#pragma once

// cmake/precompiled.hpp for tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled.hpp"
