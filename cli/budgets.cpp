// create budget, and apply of a Budget.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "cli/commands.hpp"
#include "cli/names.hpp"
#include "cli/output.hpp"
#include "libs/http/target.hpp"

namespace nodus::cli {

namespace json = boost::json;

CLI::App* add_budget(CLI::App& create, BudgetFlags& flags) {
  auto* budget = create.add_subcommand("budget", "Limit what the Sandboxes of the project spend");
  budget->footer("Example:\n  nodus create budget team --limit 100.00 --period Monthly");
  budget->add_option("NAME", flags.name, "Its name")->required()->option_text("NAME");
  budget->add_option("--limit", flags.limit, "USD, such as 100.00")->required()->option_text("USD");
  budget->add_option("--period", flags.period, "Monthly, UTC, or Total (Monthly)")->option_text("WHAT");
  budget->add_option("--threshold", flags.thresholds, "Percent of the limit to tell of (50 80 100)")
      ->option_text("PERCENT...");
  return budget;
}

namespace {

constexpr std::string_view kNotes[] = {"metadata.labels", "metadata.annotations"};

// Whether the manifest notes on it what the server did not take: made again, a Budget keeps its own.
bool has_news(const json::value& manifest, const json::value& kept) {
  return std::ranges::any_of(kNotes, [&](std::string_view path) {
    const auto* given = value_at(manifest, path);
    const auto* there = value_at(kept, path);
    return given && given->is_object() && *given != (there ? *there : json::value(json::object()));
  });
}

// As the manifest says; labels and annotations that it does not speak of stay.
Result<JsonAnswer> replace_budget(Api& api, json::value manifest, const std::string& path,
                                  const std::string& query) {
  const auto kept = api.json("GET", path);
  if (!kept) return kept;
  for (const auto note : kNotes)
    if (const auto* there = value_at(kept->body, note); there && !value_at(manifest, note))
      manifest.at("metadata").as_object()[note.substr(note.find('.') + 1)] = *there;
  return api.json("PUT", path + query, json::serialize(manifest));
}

}  // namespace

int send_budget(Api& api, const json::object& manifest, const std::string& output, bool dry_run,
                bool replace) {
  Console& console = api.console();
  const std::string query = dry_run ? "?dryRun=All" : "";
  const std::string name = text_at(manifest, "metadata.name");
  auto made = api.json("POST", "/budgets" + query, json::serialize(manifest));
  const bool differs = made ? made->status == 200 && has_news(manifest, made->body)
                            : made.error().code == Code::kConflict && made.error().reason == "AlreadyExists";
  const bool exists = replace && differs;
  if (exists) made = replace_budget(api, manifest, "/budgets/" + http::escape(name), query);
  if (!made) return report(console, made.error());
  if (output == "name")
    console.out << "budget/" << name << "\n";
  else if (output == "json" || output == "yaml")
    console.out << (output == "json" ? to_pretty_json(made->body) : to_yaml(made->body));
  else
    console.out << "budget/" << name
                << (exists                ? " configured"
                    : made->status == 201 ? " created"
                                          : " unchanged")
                << (dry_run ? " (dry run)\n" : "\n");
  return kOk;
}

int create_budget(Api& api, const BudgetFlags& flags, const std::string& output, bool dry_run) {
  json::object spec{{"limitUSD", flags.limit}};
  if (!flags.period.empty()) spec["period"] = flags.period;
  if (!flags.thresholds.empty())
    spec["thresholdsPercent"] = json::array(flags.thresholds.begin(), flags.thresholds.end());
  const json::object manifest{{"apiVersion", "nodus.dev/v1"},
                              {"kind", "Budget"},
                              {"metadata", json::object{{"name", flags.name}}},
                              {"spec", std::move(spec)}};
  return send_budget(api, manifest, output, dry_run, false);
}

}  // namespace nodus::cli
