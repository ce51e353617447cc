#include "cli/notices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.hpp"
#include "libs/config/config.hpp"

namespace nodus::cli {

namespace json = boost::json;

void warn_if_unfunded(Console& console, const json::value& sandbox) {
  const json::value* conditions = value_at(sandbox, "status.conditions");
  if (!conditions || !conditions->is_array()) return;
  for (const json::value& condition : conditions->get_array())
    if (text_at(condition, "type") == "Funded" && text_at(condition, "status") == "False")
      console.err << "warning: it cannot start yet: " << text_at(condition, "message") << "\n";
}

void warn_before_its_end(Console& console, const json::value& sandbox) {
  const auto end = parse_rfc3339(text_at(sandbox, "status.deletesAt"));
  const auto lifetime = config::parse_duration(text_at(sandbox, "spec.lifecycle.maxLifetime"));
  if (!end || !lifetime || text_at(sandbox, "status.phase") == "Terminating") return;
  const Micros left = *end - console.clock->now();
  if (left > std::min<Micros>(*lifetime / 10, std::chrono::hours(1))) return;
  console.err << fmt::format(
      "warning: sandboxes/{} is deleted in {}, with its files, because its maxLifetime ends: copy out what "
      "you "
      "need.\n",
      text_at(sandbox, "metadata.name"), format_age(left));
}

}  // namespace nodus::cli
