#pragma once

// What most files include of the standard library and of the libraries that this project stands on, parsed
// once a build (cmake/precompiled.cmake). Whoever changes it rebuilds everything: of our own, only what
// nearly every file includes anyway. Nothing that defines variables in each file (Asio, CLI11) belongs here.
// Files go on naming what they use, so that each could be built without this one.
#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/extension_set.h>
#include <google/protobuf/map.h>
#include <google/protobuf/map_entry.h>
#include <google/protobuf/message.h>
#include <google/protobuf/repeated_field.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <any>
#include <array>
#include <atomic>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <expected>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <pqxx/pqxx>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/clock.hpp"
#include "libs/base/error.hpp"
#include "libs/base/ids.hpp"

#ifdef NODUS_CODE_ONCE
// The commonest templates, whole: compiled once a build (cmake/precompiled.cmake) and not in each file that
// uses them.
template class std::basic_string<char>;
template class std::basic_string_view<char>;
template class std::vector<std::string>;
template class std::vector<std::string_view>;
template class std::vector<int>;
template class std::vector<int64_t>;
template class std::vector<std::pair<std::string, std::string>>;
template class std::vector<nodus::Cause>;
template class std::map<std::string, std::string>;
template class std::map<std::string, int>;
template class std::map<std::string, int64_t>;
template class std::set<std::string>;
template class std::deque<std::string>;
template class std::optional<std::string>;
template class std::optional<int>;
template class std::optional<int64_t>;
template class std::function<void()>;
#endif
