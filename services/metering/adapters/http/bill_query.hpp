// The query of a bill, read from a URL. Every fault at once, each with its field.
#pragma once

#include "libs/http/identity.hpp"
#include "libs/http/message.hpp"
#include "services/metering/adapters/postgres/bill.hpp"

namespace nodus::metering {

// Parameters of a query, taken one by one; what nobody took is unknown.
class QueryReader {
 public:
  explicit QueryReader(const http::Request& request) : query_(request.query) {}
  std::optional<std::string> take(const std::string& name);  // a repeated one is a fault
  void fault(std::string field, std::string message);
  // Error: BadRequest with a cause for each fault; `known` is told with what is unknown.
  Result<void> finish(const std::string& known);

 private:
  std::multimap<std::string, std::string> query_;
  std::vector<Cause> causes_;
};

// A date (2026-11-30), a month (2026-11: its first second) or an RFC 3339 instant in UTC, rounded up.
std::optional<MoneySecond> parse_second(std::string_view text);

// The project is that of the identity; an organization's bill may name one.
enum class BillScope { kProject, kOrganization };
Result<BillQuery> read_bill_query(const http::Request& request, const http::Identity& identity,
                                  BillScope scope);

}  // namespace nodus::metering
