#include "services/metering/admin.hpp"

#include <CLI/CLI.hpp>

#include <memory>

#include "services/metering/money_commands.hpp"
#include "services/metering/service.hpp"

namespace nodus::metering {

namespace {

void add_prices(CLI::App& app, AdminAction& chosen) {
  auto file = std::make_shared<std::string>();
  auto version = std::make_shared<std::string>();
  auto* prices = app.add_subcommand("prices", "publish, list and show the versions of the price book");
  prices->add_option("--file", *file, "publish its new versions: YAML, see prices.example.yaml");
  auto* list = prices->add_subcommand("list", "every version that was published");
  auto* show = prices->add_subcommand("show", "the prices of one");
  show->add_option("VERSION", *version)->required();
  prices->require_subcommand(0, 1);
  prices->callback([=, &chosen] {
    if (*list) {
      chosen = list_prices;
    } else if (*show) {
      chosen = [version](const Config& config) { return show_prices(config, *version); };
    } else if (!file->empty()) {
      chosen = [file](const Config& config) { return publish(config, *file); };
    } else {
      throw CLI::RequiredError("--file, list or show");
    }
  });
}

void add_credits(CLI::App& app, AdminAction& chosen) {
  auto asked = std::make_shared<CreditRequest>();
  auto* credit = app.add_subcommand("credit", "post a credit, once per id");
  credit->add_option("--kind", asked->kind, "Purchase, Grant, Refund or Adjustment")->required();
  credit->add_option("--org", asked->org)->required();
  credit->add_option("--amount", asked->amount, "USD, such as 100.00; an Adjustment may be below zero")
      ->required();
  credit->add_option("--id", asked->id, "kept for ever: another credit under it is refused")->required();
  credit->add_option("--author", asked->author, "who posts it")->required();
  credit->add_option("--expires", asked->expires, "of a Grant: 2027-01-01T00:00:00Z");
  credit->add_option("--priority", asked->priority, "1 to 9 (5): the smallest is used first");
  credit->callback([=, &chosen] { chosen = [asked](const Config& c) { return post_credit_of(c, *asked); }; });

  auto* grant = app.add_subcommand("grant", "the same as credit --kind Grant --author operator");
  grant->add_option("--org", asked->org)->required();
  grant->add_option("--amount", asked->amount, "USD, such as 100.00")->required();
  grant->add_option("--id", asked->id, "of the grant")->required();
  grant->callback([=, &chosen] {
    asked->kind = "Grant";
    asked->author = "operator";
    chosen = [asked](const Config& c) { return post_credit_of(c, *asked); };
  });

  auto org = std::make_shared<std::string>();
  auto* credits = app.add_subcommand("credits", "what was posted");
  auto* list = credits->add_subcommand("list", "the credits of an organization, by time");
  list->add_option("--org", *org)->required();
  credits->require_subcommand(1);
  credits->callback([=, &chosen] { chosen = [org](const Config& c) { return list_credits(c, *org); }; });
}

void add_ledger(CLI::App& app, AdminAction& chosen) {
  auto check = std::make_shared<bool>(false);
  auto expected = std::make_shared<std::string>();
  auto* rebuild = app.add_subcommand("rebuild", "replay the log and compare");
  rebuild->add_flag("--check", *check, "only compare: head rows, postings and the ledger")->required();
  rebuild->callback([check, &chosen] {  // the parser writes to it until then
    if (*check) chosen = run_rebuild;
  });
  auto* seal = app.add_subcommand("seal", "extend the chain of hashes over the ledger");
  seal->callback([&chosen] { chosen = run_seal; });
  auto* verify = app.add_subcommand("verify", "check the chain of hashes; exit code 1 on a fault");
  verify->add_option("--expect", *expected, "a hash that was written down: it must be in the chain");
  verify->callback(
      [=, &chosen] { chosen = [expected](const Config& c) { return run_verify(c, *expected); }; });
}

void add_brake(CLI::App& app, AdminAction& chosen) {
  auto reason = std::make_shared<std::string>();
  auto author = std::make_shared<std::string>("operator");
  auto* brake = app.add_subcommand("brake", "suspend the stops for money, platform-wide");
  auto* on = brake->add_subcommand("on", "no money ends, no Sandbox is stopped for it");
  auto* off = brake->add_subcommand("off", "stops go on: what ended meanwhile is stopped");
  auto* show = brake->add_subcommand("show", "its latest changes");
  for (auto* change : {on, off}) {
    change->add_option("--reason", *reason, "why; it is kept")->required();
    change->add_option("--author", *author, "who (operator)");
  }
  brake->require_subcommand(1);
  brake->callback([=, &chosen] {
    if (*show)
      chosen = show_brake;
    else
      chosen = [=, engaged = static_cast<bool>(*on)](const Config& c) {
        return set_brake(c, engaged, *reason, *author);
      };
  });
}

}  // namespace

void admin_commands(CLI::App& app, AdminAction& chosen) {
  add_prices(app, chosen);
  add_credits(app, chosen);
  add_ledger(app, chosen);
  add_brake(app, chosen);
}

}  // namespace nodus::metering
