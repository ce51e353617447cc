#include "services/metering/adapters/inputs.hpp"

#include <algorithm>
#include <map>
#include <ranges>

#include "services/metering/adapters/codec/codec.hpp"
#include "services/metering/adapters/postgres/row_batch.hpp"

namespace nodus::metering {

namespace {

class WatchedSource final : public bus::Source {
 public:
  WatchedSource(std::unique_ptr<bus::Source> source, const Clock& clock, Watermark& watermark)
      : source_(std::move(source)), clock_(clock), watermark_(watermark) {}

  Result<std::vector<bus::Message>> poll(int max, Millis timeout) override {
    note_applied();  // the reader polls again when it has applied what it got, or has rewound
    const Instant began = clock_.now();
    auto messages = source_->poll(max, timeout);
    if (!messages) return messages;
    const auto ends = source_->at_end();
    std::erase_if(applied_, [&](const auto& known) { return !ends.contains(known.first); });
    complete_ = !ends.empty();
    for (const auto& message : *messages) {
      auto [known, fresh] = delivered_.try_emplace(message.partition, message.at);
      if (!fresh) known->second = std::max(known->second, message.at);
    }
    for (const auto& [partition, at_end] : ends) {
      if (at_end) delivered_[partition] = began;
      if (!at_end && !applied_.contains(partition) && !delivered_.contains(partition)) complete_ = false;
    }
    if (messages->empty()) note_applied();
    return messages;
  }
  std::map<int, bool> at_end() const override { return source_->at_end(); }
  void rewind(int partition) override {
    delivered_.erase(partition);
    if (!applied_.contains(partition)) complete_ = false;
    source_->rewind(partition);
  }

 private:
  void note_applied() {
    for (const auto& [partition, at] : delivered_) applied_[partition] = std::max(applied_[partition], at);
    delivered_.clear();
    if (!complete_ || applied_.empty()) return;
    watermark_.reached(std::ranges::min(applied_ | std::views::values));
  }

  std::unique_ptr<bus::Source> source_;
  const Clock& clock_;
  Watermark& watermark_;
  std::map<int, Instant> delivered_;  // per partition: how far the last poll reached
  std::map<int, Instant> applied_;    // per partition that is ours: all published before is applied
  bool complete_ = false;             // each partition that is ours has an entry
};

// The labels are nothing that a decision depends on: they are noted beside it, for bills.
eventlog::Work with_labels(eventlog::Work work, LabelsNote note) {
  work.decide = [decide = std::move(work.decide), note = std::move(note)](eventlog::Unit& unit) {
    auto answer = decide(unit);
    if (answer) unit.stage(note);
    return answer;
  };
  return work;
}

}  // namespace

bus::Route scheduler_route(Works& works) {
  return [&works](const bus::Message& message) -> Result<std::optional<eventlog::Work>> {
    auto command = codec::command_of(message.type, message.payload);
    if (!command) return std::unexpected(std::move(command.error()));
    if (!*command) return std::nullopt;
    auto labels = codec::labels_of(message.type, message.payload);
    const SlotRef slot = slot_of(**command);
    auto work = works.on_start(std::move(**command));
    if (!labels.empty()) work = with_labels(std::move(work), {slot.uid, slot.start, std::move(labels)});
    return work;
  };
}

std::unique_ptr<bus::Source> watched(std::unique_ptr<bus::Source> source, const Clock& clock,
                                     Watermark& watermark) {
  return std::make_unique<WatchedSource>(std::move(source), clock, watermark);
}

}  // namespace nodus::metering
