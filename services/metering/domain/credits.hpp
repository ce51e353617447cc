// Credits: what is added to a balance, and what is taken away again.
//
// A Purchase or a Grant adds. A Refund pays a purchase back, an Adjustment corrects by hand; neither takes
// more than is available: what is spent, running or held stays paid. Only a Refund that has happened already,
// as a payment processor tells of one, is recorded whatever is left: the rest is a loss of the platform.
#pragma once

#include <vector>

#include "libs/base/error.hpp"
#include "services/metering/domain/decide.hpp"

namespace nodus::metering {

// `settled`: the account, with its lines brought up to `now`. No events: it is a repeat.
Result<std::vector<account::Event>> post_credit(const account::State& settled, const PostCredit& command,
                                                Instant now);

}  // namespace nodus::metering
