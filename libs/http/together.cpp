#include "libs/http/together.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace nodus::http {

boost::asio::awaitable<void> together(boost::asio::awaitable<void> one, boost::asio::awaitable<void> two,
                                      boost::asio::awaitable<void> three) {
  using boost::asio::experimental::awaitable_operators::operator&&;
  co_await (std::move(one) && std::move(two) && std::move(three));
}

}  // namespace nodus::http
