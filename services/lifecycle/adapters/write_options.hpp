// What a create, a PUT, a patch or a delete asks for besides the object: dry run, preconditions, media types.
#pragma once

#include <boost/json.hpp>

#include <optional>
#include <string>

#include "libs/http/message.hpp"
#include "services/lifecycle/app/ports.hpp"

namespace nodus::lifecycle {

// ?dryRun=All: everything is checked and decided, nothing is kept. Invalid for another value.
Result<bool> dry_run_of(const http::Request& request);

// BadRequest/UnsupportedMediaType (415), with what to send instead.
Result<void> takes_json(const http::Request& request);         // or no Content-Type
Result<void> takes_merge_patch(const http::Request& request);  // application/merge-patch+json only

// The object as the caller knows it; what is absent is not checked.
struct Precondition {
  std::optional<std::string> uid;
  std::optional<int64_t> resource_version;
};
// Of metadata.uid and metadata.resourceVersion of an object or a patch. Invalid.
Result<Precondition> precondition_of(const boost::json::object& object);

Result<void> check(const Precondition& precondition, const SandboxView& view);  // Conflict

// A DELETE's body (DeleteOptions, or nothing) and query. propagationPolicy and gracePeriodSeconds are taken
// and have no effect: a Sandbox always ends its commands and takes its files with it; Orphan is refused.
struct DeleteOptions {
  bool dry_run = false;
  Precondition precondition;
};
Result<DeleteOptions> delete_options(const http::Request& request);

// RFC 7396: members of `patch` replace those of `target`, null removes, objects are merged.
void merge(boost::json::value& target, const boost::json::value& patch);

}  // namespace nodus::lifecycle
