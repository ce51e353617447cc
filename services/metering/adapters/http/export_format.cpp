#include "services/metering/adapters/http/export_format.hpp"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <iterator>

#include "libs/base/csv.hpp"
#include "libs/money/money.hpp"

namespace nodus::metering {

namespace {

constexpr std::array kFocusColumns{"BilledCost",
                                   "BillingAccountId",
                                   "BillingAccountName",
                                   "BillingCurrency",
                                   "BillingPeriodEnd",
                                   "BillingPeriodStart",
                                   "ChargeCategory",
                                   "ChargeClass",
                                   "ChargeDescription",
                                   "ChargeFrequency",
                                   "ChargePeriodEnd",
                                   "ChargePeriodStart",
                                   "ConsumedQuantity",
                                   "ConsumedUnit",
                                   "ContractedCost",
                                   "ContractedUnitPrice",
                                   "EffectiveCost",
                                   "InvoiceId",
                                   "InvoiceIssuerName",
                                   "ListCost",
                                   "ListUnitPrice",
                                   "PricingCategory",
                                   "PricingQuantity",
                                   "PricingUnit",
                                   "ProviderName",
                                   "PublisherName",
                                   "ResourceId",
                                   "ResourceName",
                                   "ResourceType",
                                   "ServiceCategory",
                                   "ServiceName",
                                   "ServiceSubcategory",
                                   "SkuId",
                                   "SkuMeter",
                                   "SkuPriceDetails",
                                   "SkuPriceId",
                                   "SubAccountId",
                                   "SubAccountName",
                                   "Tags",
                                   "x_LineKind",
                                   "x_Reason",
                                   "x_StartNumber"};

constexpr std::array kCsvColumns{"Month",  "Type",   "Project", "Sandbox", "SandboxUid", "Start",
                                 "Kind",   "From",   "To",      "Seconds", "Rate",       "Amount",
                                 "Waived", "Reason", "Labels",  "Invoice", "Currency"};

constexpr std::string_view kStorage = "Storage";  // a kind of line
constexpr std::string_view kZero = "0.000000000000";

template <size_t N>
std::string head_of(const std::array<const char*, N>& columns) {
  std::string head;
  for (const char* column : columns) head += (head.empty() ? "" : ",") + std::string(column);
  return head + "\r\n";
}

// One line; cells in the order of the head.
class Line {
 public:
  explicit Line(std::string& into) : into_(into) {}
  Line& text(std::string_view value) { return raw(csv_text(value)); }
  Line& raw(std::string_view value) {  // needs no quotes: numbers, instants, words of ours
    if (!first_) into_ += ',';
    first_ = false;
    into_ += value;
    return *this;
  }
  Line& raw(int64_t value) { return raw(fmt::format_int(value).c_str()); }
  Line& instant(MoneySecond at) {
    const int64_t in_day = at % kDaySeconds;
    const std::chrono::year_month_day day(std::chrono::sys_days(std::chrono::days(at / kDaySeconds)));
    raw("");
    fmt::format_to(std::back_inserter(into_), FMT_COMPILE("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z"),
                   static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                   static_cast<unsigned>(day.day()), in_day / 3'600, in_day / 60 % 60, in_day % 60);
    return *this;
  }
  Line& none() { return raw(""); }
  void end() { into_ += "\r\n"; }

 private:
  std::string& into_;
  bool first_ = true;
};

std::string_view name_of(std::string_view project) {
  return project.substr(project.find('/') + 1);  // find's npos + 1 is 0
}

std::string described(const ExportRow& row) {
  if (row.type == "Rounding") return "Rounding of the invoice to whole cents";
  std::string text = fmt::format("{} of Sandbox {}, start {}", row.kind, row.sandbox_name, row.start);
  if (row.reason != "Charged") text += ", waived: " + row.reason;
  if (row.seconds < 0) text += ", taken back";
  return text;
}

// "0.25", "10": whole units and what is left, without a float.
std::string quotient(const std::string& dividend, int64_t divisor) {
  const int128 pico = static_cast<int128>(std::stoll(dividend)) * 1'000'000'000'000 / divisor;
  std::string text = Money::from_pico(pico).to_decimal();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string shape_of(const ExportRow& row) {
  constexpr int64_t kGib = 1LL << 30;
  if (row.kind == kStorage && !row.disk_bytes.empty())
    return fmt::format(R"({{"DiskSpace":{}}})", quotient(row.disk_bytes, kGib));
  if (row.cpu_milli.empty() || row.cpu_milli == "0") return "";
  return fmt::format(R"({{"CoreCount":{},"DiskSpace":{},"MemorySize":{}}})", quotient(row.cpu_milli, 1'000),
                     quotient(row.disk_bytes, kGib), quotient(row.memory_bytes, kGib));
}

std::string sku_of(const ExportRow& row) {
  if (row.kind == kStorage) return "restore-point";
  return row.machine_type.empty() ? "sandbox-shared" : "sandbox-machine-" + row.machine_type;
}

void add_focus(const ExportOf& of, const ExportRow& row, Line line) {
  const bool usage = row.type != "Rounding";
  const bool waived = usage && row.reason != "Charged";
  line.raw(row.amount).text(of.org.str()).text(of.org.str()).raw("USD");
  line.instant(end_of(of.month)).instant(begin_of(of.month));
  line.raw(usage ? "Usage" : "Adjustment")
      .raw(row.type == "Correction" ? "Correction" : "")
      .text(described(row));
  line.raw(usage ? "Usage-Based" : "One-Time").instant(row.to_s).instant(row.from_s);
  if (usage)
    line.raw(row.seconds).raw("Seconds");
  else
    line.none().none();
  line.raw(row.amount).raw(!usage ? "" : waived ? kZero : row.rate).raw(row.amount);
  line.text(of.invoice).text(of.issuer).raw(row.list_amount).raw(row.rate);
  if (usage)
    line.raw("Standard").raw(row.seconds).raw("Seconds");
  else
    line.none().none().none();
  line.raw("Nodus").raw("Nodus");
  line.text(row.sandbox_uid).text(row.sandbox_name).raw(usage ? "Sandbox" : "");
  const bool storage = row.kind == kStorage;
  line.raw(storage ? "Storage" : "Compute").raw("Nodus Sandboxes");
  line.raw(storage ? "Backup Storage" : "Containers");
  if (usage) {
    const std::string sku = sku_of(row);
    line.text(sku).raw(row.kind + " time").text(shape_of(row));
    line.text(row.price_version.empty() ? sku : row.price_version + "/" + sku);
  } else {
    line.none().none().none().none();
  }
  line.text(row.project).text(name_of(row.project)).text(row.labels);
  line.raw(row.kind).raw(row.reason).raw(row.start);
  line.end();
}

void add_csv(const ExportOf& of, const ExportRow& row, Line line) {
  const bool usage = row.type != "Rounding";
  line.raw(to_string(of.month)).raw(row.type).text(name_of(row.project)).text(row.sandbox_name);
  line.text(row.sandbox_uid).raw(row.start).raw(row.kind).instant(row.from_s).instant(row.to_s);
  line.raw(row.seconds).raw(row.rate).raw(row.amount);
  line.raw(usage && row.reason != "Charged" ? "true" : "false").raw(row.reason).text(row.labels);
  line.text(of.invoice).raw("USD");
  line.end();
}

}  // namespace

std::string export_head(ExportFormat format) {
  return format == ExportFormat::kFocus ? head_of(kFocusColumns) : head_of(kCsvColumns);
}

void add_row(ExportFormat format, const ExportOf& of, const ExportRow& row, std::string& into) {
  if (format == ExportFormat::kFocus)
    add_focus(of, row, Line(into));
  else
    add_csv(of, row, Line(into));
}

}  // namespace nodus::metering
