#include "services/metering/app/deadlines.hpp"

#include <algorithm>

#include "libs/telemetry/failpoint.hpp"
#include "libs/telemetry/log.hpp"
#include "libs/telemetry/metrics.hpp"
#include "services/metering/app/streams.hpp"

namespace nodus::metering {

namespace {
constexpr int kPage = 256;
constexpr Millis kShortestWait{20};  // many commits wake the thread; one look serves them all
}  // namespace

Deadlines::Deadlines(const Clock& clock, eventlog::EventLog& log, Works& works, DeadlineRows& rows,
                     const Watermark& watermark, DeadlineOptions options)
    : clock_(clock),
      log_(log),
      works_(works),
      rows_(rows),
      watermark_(watermark),
      options_(options),
      began_(clock.now()),
      loop_([this] { return step(); }, kShortestWait) {}

Millis Deadlines::step() {
  static auto failures =
      metrics::counter("nodus_metering_deadline_failures_total", "Looks at money deadlines that failed");
  auto more = run_due();
  if (!more) {
    failures.add();
    log::warn("metering.deadlines_wait", {{"error", more.error().message}});
    return options_.poll;
  }
  if (*more) return kShortestWait;
  if (braked_) return options_.poll;
  const auto next = rows_.earliest().value_or(std::nullopt);
  if (!next) return options_.poll;
  return std::clamp(std::chrono::ceil<Millis>(*next - clock_.now()), kShortestWait, options_.poll);
}

// What is due up to here may be judged now: the facts up to it are known, or were waited for long enough.
Instant Deadlines::horizon() const {
  const Instant now = clock_.now();
  if (now < began_ + options_.bus_patience) return std::min(now, watermark_.at());
  return std::min(now, std::max(watermark_.at(), now - options_.bus_patience));
}

Result<void> Deadlines::heed_brake() {
  const auto brake = rows_.brake();
  if (!brake) return std::unexpected(brake.error());
  works_.set_brake(brake->on);
  if (braked_.exchange(brake->on) != brake->on)
    log::warn("metering.brake", {{"on", brake->on}, {"reason", brake->reason}});
  return {};
}

Result<bool> Deadlines::run_due() {
  if (auto heeded = heed_brake(); !heeded) return std::unexpected(std::move(heeded.error()));
  if (braked_) return false;
  const Instant due = horizon();
  // One organization's failure does not keep the others waiting; the first error is told at the end.
  std::optional<Error> failed;
  const auto keep = [&](Result<void> done) {
    if (!done && !failed) failed = std::move(done.error());
  };
  const auto caps = rows_.due_caps(due, kPage);
  if (!caps) return std::unexpected(caps.error());
  keep(judge(*caps, due));
  const auto orgs = rows_.due_balances(due, kPage);
  if (!orgs) return std::unexpected(orgs.error());
  for (const auto& org : *orgs) keep(judge_balance(org, due));
  const auto projects = rows_.due_budgets(due, kPage);
  if (!projects) return std::unexpected(projects.error());
  for (const auto& project : *projects) keep(judge_budget(project, due));
  const auto stored = rows_.due_storage(kPage);
  if (!stored) return std::unexpected(stored.error());
  std::vector<eventlog::Work> works;
  for (const auto& slot : *stored) works.push_back(works_.on_start(JudgeStorage{slot, due}));
  keep(run_all(works));
  if (failed) return std::unexpected(std::move(*failed));
  return stored->size() == kPage || caps->size() == kPage || orgs->size() == kPage ||
         projects->size() == kPage;
}

Result<void> Deadlines::run_all(const std::vector<eventlog::Work>& works) {
  if (works.empty()) return {};
  std::optional<Error> failed;
  for (auto& answer : log_.run(works)) {
    if (!answer && !failed) failed = std::move(answer.error());
  }
  if (failed) return std::unexpected(std::move(*failed));
  return {};
}

Result<void> Deadlines::judge(const std::vector<SlotRef>& slots, Instant at) {
  if (!slots.empty()) (void)failpoint("metering.judge");
  std::vector<eventlog::Work> works;
  for (const auto& slot : slots) works.push_back(works_.on_start(JudgeMoney{slot, at}));
  return run_all(works);
}

Result<void> Deadlines::judge_balance(const OrgId& org, Instant at) {
  const auto head = log_.head(account_stream(org));
  if (!head) return std::unexpected(head.error());
  for (SandboxUid after;;) {
    const auto slots = rows_.unjudged(org, after, kPage);
    if (!slots) return std::unexpected(slots.error());
    if (slots->empty()) break;
    if (auto judged = judge(*slots, at); !judged) return std::unexpected(std::move(judged.error()));
    after = slots->back().uid;
  }
  return run_all({works_.on_account(JudgeBalance{org, at}), works_.account_judged(org, head->version, at)});
}

// What ended is recorded first; then every start whose line ended with it is told so and stopped.
Result<void> Deadlines::judge_budget(const ProjectKey& project, Instant at) {
  if (auto told = run_all({works_.on_budget(JudgeBudget{project.org, project.project, at})}); !told)
    return told;
  const auto head = log_.head(budget_stream(project.project));
  if (!head) return std::unexpected(head.error());
  for (SandboxUid after;;) {
    const auto slots = rows_.over_budget(project, after, kPage);
    if (!slots) return std::unexpected(slots.error());
    if (slots->empty()) break;
    if (auto judged = judge(*slots, at); !judged) return std::unexpected(std::move(judged.error()));
    after = slots->back().uid;
  }
  return run_all({works_.budget_judged(project, head->version, at)});
}

}  // namespace nodus::metering
