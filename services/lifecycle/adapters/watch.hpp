// GET …?watch=true: what changes, one JSON object a line, as Kubernetes sends it.
//
// With a resourceVersion: every change after it, in order; 410 Expired when those are not kept any more.
// Without (or "0"): an ADDED for each object there is, then what changes. It ends, with a bookmark for those
// who asked for bookmarks, after timeoutSeconds, or after half an hour to an hour. A watcher whose connection
// takes nothing for 30 s is cut; one that falls behind what is kept gets an ERROR event with the Status 410
// and is ended.
#pragma once

#include "services/lifecycle/adapters/object_source.hpp"

namespace nodus::lifecycle {

// `source` outlives the call.
boost::asio::awaitable<void> watch(Api& api, const http::Identity& caller, http::Exchange& exchange,
                                   const Resource& resource, ReadOptions options, ObjectSource& source);

// What a watcher with this selector is told of a change: ADDED, MODIFIED or DELETED; empty: nothing.
std::string_view verdict(const Selector& selector, const std::string& type, const boost::json::object& object,
                         const boost::json::object& was);

}  // namespace nodus::lifecycle
