// Invoices: one a month (UTC) of an organization, with a number. Closing a month is final: what is posted
// later for its seconds are corrections of the next invoice.
//
//   invoice of M = lines of M posted in time + late lines of earlier months
//                + what is open now, up to the last proven instant − what the invoice before said was open
//
// so the sum of all invoices is the sum of all lines, whatever came late.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libs/base/ids.hpp"
#include "libs/money/money.hpp"
#include "libs/pg/connection.hpp"
#include "services/metering/app/calendar.hpp"

namespace nodus::metering {

struct InvoiceLine {
  std::string type;  // Usage | Correction | Rounding
  Month month = 0;   // of the seconds
  ProjectId project;
  std::string kind;    // Starting | Running | Stopping
  std::string reason;  // Charged, or why it was waived
  int64_t seconds = 0;
  Money amount;
};

struct Invoice {
  std::string number;
  std::string issuer;
  OrgId org;
  Month month = 0;
  Instant issued_at;
  MoneySecond proven_to_s = 0;
  Money total;                     // whole cents: the sum of the lines, the rounding among them
  std::vector<InvoiceLine> lines;  // by type, month, project, kind
};

struct ClosedMonth {
  OrgId org;
  Month month = 0;
  std::string number;  // empty: there was nothing to invoice
  Money total;
  bool before = false;  // it was closed before
};

// Organizations with an account.
Result<std::vector<OrgId>> organizations(pg::Pool& pool);
// Closes every month of the organization up to `month` that is still open, in order, each in a transaction of
// its own: its invoice, its number and its lock are there together or not at all. Says the same when
// repeated. Errors: Conflict/MonthNotOver.
Result<std::vector<ClosedMonth>> close_months(pg::Pool& pool, const OrgId& org, Month month,
                                              const std::string& issuer, Instant now);

// Newest first, without their lines. `before`: only older months; 0: all.
Result<std::vector<Invoice>> list_invoices(pg::Pool& pool, const OrgId& org, Month before, int limit);
// NotFound, also when it is another organization's.
Result<Invoice> read_invoice(pg::Pool& pool, const OrgId& org, const std::string& number);

}  // namespace nodus::metering
