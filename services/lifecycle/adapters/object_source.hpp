// Where lists and watches of one kind of one project read from: lifecycle's own tables, or metering, whose
// objects Budgets are. Used by one coroutine.
#pragma once

#include "services/lifecycle/adapters/api.hpp"
#include "services/lifecycle/adapters/change_feed.hpp"
#include "services/lifecycle/adapters/read_options.hpp"

namespace nodus::lifecycle {

// One page of the objects there are now, rendered, in the order of their names.
struct ObjectPage {
  std::vector<boost::json::object> objects;
  std::string next;
  int64_t resource_version = 0;
};
using ReadPage = Result<ObjectPage> (*)(Api& api, const ProjectId& project, const ListQuery& query);

class ObjectSource {
 public:
  virtual ~ObjectSource() = default;
  virtual boost::asio::awaitable<Result<ObjectPage>> page(const ListQuery& query) = 0;
  // Whether a watch can go on after `since`: the page's floor and last say so, its changes nothing.
  virtual boost::asio::awaitable<Result<ChangePage>> standing(int64_t since) = 0;
  virtual boost::asio::awaitable<Result<ChangePage>> changes(int64_t after) = 0;
  virtual std::optional<ChangeFeed::Part> heard(int64_t after) = 0;  // from memory; nothing: ask changes()
  // Before a look at what changed: a change after it ends the wait.
  virtual void look() = 0;
  virtual boost::asio::awaitable<void> wait(int64_t after, Millis at_most) = 0;
};

// The answer to a list.
Result<http::Response> list_answer(Api& api, const Resource& resource, const ReadOptions& options,
                                   Result<ObjectPage> page);

}  // namespace nodus::lifecycle
