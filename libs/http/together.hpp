// Coroutines of one exchange side by side.
#pragma once

#include <boost/asio/awaitable.hpp>

namespace nodus::http {

// Runs all three on the caller's strand until each has ended.
boost::asio::awaitable<void> together(boost::asio::awaitable<void> one, boost::asio::awaitable<void> two,
                                      boost::asio::awaitable<void> three);

}  // namespace nodus::http
