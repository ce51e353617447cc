// A real Kafka broker of this test process, in a directory of its own, ended by its process id.
#pragma once

#include <string>

namespace nodus::bus::test {

class Broker {
 public:
  Broker();
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  const std::string& address() const { return address_; }  // host:port, the same after a restart
  void kill_now();                                         // SIGKILL
  void start();

 private:
  std::string dir_;
  std::string address_;
};

Broker& shared_broker();  // started when first asked for

}  // namespace nodus::bus::test
