// What an operator does to the money of the platform, the same from the command line and over HTTP.
#pragma once

#include <string>
#include <vector>

#include "libs/pg/connection.hpp"
#include "services/metering/app/works.hpp"

namespace nodus::metering {

struct CreditRequest {  // as given; expires: "" or RFC 3339
  std::string kind, org, amount, id, author, expires;
  int priority = 5;
};

// Every fault at once, its field named as in CreditRequest. What needs the account is judged when it is
// posted.
Result<PostCredit> credit_of(const CreditRequest& asked);
// True: posted; false: the very same was posted before.
Result<bool> post_credit(eventlog::EventLog& log, Works& works, PostCredit credit);

// The platform's brake: an operator suspends the stops for money when metering is found wrong. Each change is
// a row with its reason; services heed it within a second.
struct BrakeChange {
  bool engaged = false;
  std::string reason, author;  // 1 to 500 characters each
  Instant at;
};
Result<void> change_brake(pg::Pool& pool, const BrakeChange& change);
Result<std::vector<BrakeChange>> brake_changes(pg::Pool& pool);  // the latest 50, newest first

}  // namespace nodus::metering
