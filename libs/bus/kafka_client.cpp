#include "libs/bus/kafka_client.hpp"

#include <fmt/core.h>
#include <librdkafka/rdkafka.h>

#include "libs/base/check.hpp"
#include "libs/telemetry/log.hpp"

namespace nodus::bus::kafka {
namespace {

class Events final : public RdKafka::EventCb {
 public:
  void event_cb(RdKafka::Event& event) override {
    // A lost connection is logged by the library too, once in 30 s.
    if (event.type() == RdKafka::Event::EVENT_ERROR && event.err() != RdKafka::ERR__TRANSPORT)
      log::warn("kafka.error", {{"error", RdKafka::err2str(event.err())}, {"detail", event.str()}});
    else if (event.type() == RdKafka::Event::EVENT_LOG)
      log::warn("kafka.client", {{"what", event.fac()}, {"detail", event.str()}});
  }
};
Events events;  // one for all clients; it holds nothing

// Long enough for a service that was away or that is new; older events are in the log still.
constexpr const char* kRetentionMs = "2592000000";  // 30 days

// -1: there is no such topic (yet).
Result<int> count_partitions(RdKafka::Handle& handle, const std::string& name, Millis timeout) {
  RdKafka::Metadata* raw = nullptr;
  // All topics, because asking for a missing one may make the broker create it with its own defaults.
  const auto code = handle.metadata(true, nullptr, &raw, static_cast<int>(timeout.count()));
  const std::unique_ptr<RdKafka::Metadata> metadata(raw);
  if (code != RdKafka::ERR_NO_ERROR) return unavailable("The list of topics cannot be read", err2str(code));
  for (const auto* topic : *metadata->topics()) {
    if (topic->topic() != name || topic->err() != RdKafka::ERR_NO_ERROR) continue;
    return static_cast<int>(topic->partitions()->size());
  }
  return -1;
}

// The C++ interface has no admin functions.
Result<> create_topic(rd_kafka_t* handle, const std::string& name, int partitions, Millis timeout) {
  char why[256] = "";
  using Queue = std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)>;
  using NewTopic = std::unique_ptr<rd_kafka_NewTopic_t, decltype(&rd_kafka_NewTopic_destroy)>;
  using Options = std::unique_ptr<rd_kafka_AdminOptions_t, decltype(&rd_kafka_AdminOptions_destroy)>;
  using Event = std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)>;
  const Queue queue(rd_kafka_queue_new(handle), rd_kafka_queue_destroy);
  const NewTopic topic(rd_kafka_NewTopic_new(name.c_str(), partitions, -1, why, sizeof why),
                       rd_kafka_NewTopic_destroy);
  CHECK(topic != nullptr, "topic {}: {}", name, why);
  rd_kafka_NewTopic_set_config(topic.get(), "retention.ms", kRetentionMs);
  const Options options(rd_kafka_AdminOptions_new(handle, RD_KAFKA_ADMIN_OP_CREATETOPICS),
                        rd_kafka_AdminOptions_destroy);
  const int timeout_ms = static_cast<int>(timeout.count());
  rd_kafka_AdminOptions_set_request_timeout(options.get(), timeout_ms, why, sizeof why);
  rd_kafka_NewTopic_t* topics[] = {topic.get()};
  rd_kafka_CreateTopics(handle, topics, 1, options.get(), queue.get());
  const Event event(rd_kafka_queue_poll(queue.get(), timeout_ms + 1'000), rd_kafka_event_destroy);
  if (!event) return unavailable("The topic " + name + " cannot be made", "no answer");
  if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
    return unavailable("The topic " + name + " cannot be made", rd_kafka_event_error_string(event.get()));
  const auto* result = rd_kafka_event_CreateTopics_result(event.get());
  size_t count = 0;
  const auto** made = rd_kafka_CreateTopics_result_topics(result, &count);
  CHECK(count == 1, "{} answers", count);
  const auto code = rd_kafka_topic_result_error(made[0]);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) return {};
  return unavailable("The topic " + name + " cannot be made", rd_kafka_err2str(code));
}

}  // namespace

std::string topic_name(const TransportOptions& options, const std::string& topic) {
  return options.topic_prefix + topic + ".v1";
}

std::unique_ptr<RdKafka::Conf> make_conf(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::unique_ptr<RdKafka::Conf> conf(RdKafka::Conf::create(RdKafka::Conf::CONF_GLOBAL));
  for (const auto& [name, value] : settings) {
    std::string why;
    CHECK(conf->set(name, value, why) == RdKafka::Conf::CONF_OK, "{}", why);
  }
  std::string why;
  CHECK(conf->set("log_level", "3", why) == RdKafka::Conf::CONF_OK, "{}", why);
  CHECK(conf->set("event_cb", static_cast<RdKafka::EventCb*>(&events), why) == RdKafka::Conf::CONF_OK, "{}",
        why);
  return conf;
}

Result<> ensure_topic(RdKafka::Handle& handle, const std::string& name, int partitions, Millis timeout) {
  auto found = count_partitions(handle, name, timeout);
  if (!found) return std::unexpected(std::move(found.error()));
  if (*found == -1) return create_topic(handle.c_ptr(), name, partitions, timeout);
  if (*found == partitions) return {};
  return fail(Code::kInternal, "TopicPartitionsDiffer",
              fmt::format("The topic {} has {} partitions and log.partitions is {}; they must be equal.",
                          name, *found, partitions));
}

std::unexpected<Error> unavailable(const std::string& what, const std::string& why) {
  return fail(Code::kUnavailable, "KafkaUnavailable", fmt::format("{}: {}.", what, why));
}

}  // namespace nodus::bus::kafka
