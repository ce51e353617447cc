#include "services/metering/adapters/inputs.hpp"

#include "services/metering/adapters/codec/codec.hpp"

namespace nodus::metering {

namespace {

class WatchedSource final : public bus::Source {
 public:
  WatchedSource(std::unique_ptr<bus::Source> source, const Clock& clock, Watermark& watermark)
      : source_(std::move(source)), clock_(clock), watermark_(watermark) {}

  Result<std::vector<bus::Message>> poll(int max, Millis timeout) override {
    const Instant began = clock_.now();
    auto messages = source_->poll(max, timeout);
    if (messages && messages->empty()) watermark_.reached(began);
    return messages;
  }
  void rewind(int partition) override { source_->rewind(partition); }

 private:
  std::unique_ptr<bus::Source> source_;
  const Clock& clock_;
  Watermark& watermark_;
};

}  // namespace

bus::Route scheduler_route(Works& works) {
  return [&works](const bus::Message& message) -> Result<std::optional<eventlog::Work>> {
    auto command = codec::command_of(message.type, message.payload);
    if (!command) return std::unexpected(std::move(command.error()));
    if (!*command) return std::nullopt;
    return works.on_start(std::move(**command));
  };
}

std::unique_ptr<bus::Source> watched(std::unique_ptr<bus::Source> source, const Clock& clock,
                                     Watermark& watermark) {
  return std::make_unique<WatchedSource>(std::move(source), clock, watermark);
}

}  // namespace nodus::metering
