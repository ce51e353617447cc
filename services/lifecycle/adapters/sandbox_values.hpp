// The values that lifecycle's events and states share, Protobuf ⇄ domain. For the codecs only.
#pragma once

#include <optional>
#include <string>

#include "nodus/lifecycle/v1/events.pb.h"
#include "services/lifecycle/domain/sandbox.hpp"

namespace nodus::lifecycle::codec {

namespace pb = nodus::lifecycle::v1;
namespace common = nodus::common::v1;

Money money_of(const std::string& usd);
std::optional<Rate> rate_of(const std::string& usd);
void put(const SandboxSpec& spec, pb::SandboxSpec* out);
SandboxSpec spec_of(const pb::SandboxSpec& in);
void put(const RestorePoint& point, common::RestorePoint* out);
RestorePoint restore_point_of(const common::RestorePoint& in);
void put(const SandboxCreated& e, pb::SandboxCreated* out);
SandboxCreated created_of(const pb::SandboxCreated& in);
void put(const Refusal& refusal, pb::FundingRecorded* out);
Refusal refusal_of(const pb::FundingRecorded& in);

}  // namespace nodus::lifecycle::codec
