// A Budget as the API shows and takes it.
//   {"apiVersion": "nodus.dev/v1", "kind": "Budget", "metadata": {"name": "team"},
//    "spec": {"limitUSD": "100.00", "period": "Monthly", "thresholdsPercent": [50, 80, 100]}}
#pragma once

#include <boost/json.hpp>

#include <optional>
#include <string>

#include "libs/base/error.hpp"
#include "services/metering/domain/budget.hpp"

namespace nodus::metering {

struct BudgetManifest {
  std::string name;
  std::string uid;               // empty: not checked
  std::string resource_version;  // empty: not checked
  budget::Spec spec;
  budget::Metadata metadata;
};

// Errors: BadRequest (not such an object), Invalid, with every fault and its field. A status is taken and
// ignored.
Result<BudgetManifest> read_budget(const boost::json::value& object, const ProjectId& project);

// `version`: its resourceVersion; 0: it is left out.
boost::json::object to_json(const budget::State& state, const budget::Budget& budget, Instant now,
                            int64_t version = 0);
std::string project_name(const ProjectId& project);

}  // namespace nodus::metering
