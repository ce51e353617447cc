#include "services/scheduler/adapters/inputs.hpp"

#include "libs/base/check.hpp"
#include "services/scheduler/adapters/codec/codec.hpp"

namespace nodus::scheduler {

bus::Route make_route(const std::string& topic, Slots& slots) {
  CHECK(topic == "lifecycle" || topic == "metering", "{}", topic);
  const auto read = topic == "lifecycle" ? codec::from_lifecycle : codec::from_metering;
  const bool money = topic == "metering";
  return [read, money, &slots](const bus::Message& message) -> Result<std::optional<eventlog::Work>> {
    if (money) {
      const auto purchase = codec::first_purchase(message.type, message.payload);
      if (!purchase) return std::unexpected(purchase.error());
      if (*purchase) return slots.first_purchase((*purchase)->org, (*purchase)->at);
    }
    auto input = read(message.type, message.payload);
    if (!input) return std::unexpected(std::move(input.error()));
    if (!*input) return std::nullopt;
    auto work = slots.work((*input)->sandbox, std::move((*input)->command));
    if (!work) return std::unexpected(std::move(work.error()));
    return std::move(*work);
  };
}

}  // namespace nodus::scheduler
