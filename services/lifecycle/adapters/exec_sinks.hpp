// The forms in which a command's output is answered over plain HTTP.
#pragma once

#include <string>

#include "services/lifecycle/adapters/process_stream.hpp"

namespace nodus::lifecycle {

// A sink that is also the answer: the header goes out with the first news, so that until then another answer
// is possible.
class AnswerSink : public OutputSink {
 public:
  AnswerSink(http::Exchange& exchange, std::string process)
      : exchange_(exchange), name_(std::move(process)) {}
  virtual boost::asio::awaitable<void> end(const std::optional<StreamEnd>& end) = 0;

 protected:
  boost::asio::awaitable<bool> send(std::string_view bytes, const char* content_type);
  boost::asio::awaitable<void> finish(std::string_view bytes, const char* content_type);

  http::Exchange& exchange_;
  const std::string name_;  // sb-hello-12
  bool begun_ = false;
};

// One JSON object a line; see docs/ARCHITECTURE.md, "Exec frames".
class FrameSink final : public AnswerSink {
 public:
  // `stream`: 1 or 2, 0: both.
  FrameSink(http::Exchange& exchange, std::string process, int stream = 0)
      : AnswerSink(exchange, std::move(process)), stream_(stream) {}
  boost::asio::awaitable<bool> begun() override;
  boost::asio::awaitable<bool> frames(std::span<const OutputFrame> frames) override;
  boost::asio::awaitable<bool> quiet() override;
  boost::asio::awaitable<void> end(const std::optional<StreamEnd>& end) override;

 private:
  const int stream_;
};

// The bytes themselves.
class BytesSink final : public AnswerSink {
 public:
  // `stream`: 1 or 2, 0: both.
  BytesSink(http::Exchange& exchange, std::string process, int stream)
      : AnswerSink(exchange, std::move(process)), stream_(stream) {}
  boost::asio::awaitable<bool> begun() override;
  boost::asio::awaitable<bool> frames(std::span<const OutputFrame> frames) override;
  boost::asio::awaitable<bool> quiet() override;
  boost::asio::awaitable<void> end(const std::optional<StreamEnd>& end) override;

 private:
  const int stream_;
};

// One JSON object with the whole result. Output beyond the limit is left out and said to be: it is in the
// log. While the command is silent spaces are sent, which JSON allows before a value.
class ResultSink final : public AnswerSink {
 public:
  ResultSink(http::Exchange& exchange, std::string process, size_t limit, bool base64)
      : AnswerSink(exchange, std::move(process)), limit_(limit), base64_(base64) {}
  boost::asio::awaitable<bool> begun() override;
  boost::asio::awaitable<bool> frames(std::span<const OutputFrame> frames) override;
  boost::asio::awaitable<bool> quiet() override;
  boost::asio::awaitable<void> end(const std::optional<StreamEnd>& end) override;

 private:
  const size_t limit_;
  const bool base64_;
  std::string kept_[2];
  uint64_t written_[2] = {0, 0};
};

// Text of any bytes: what is not UTF-8 becomes U+FFFD.
std::string text_of(std::string_view bytes);

}  // namespace nodus::lifecycle
