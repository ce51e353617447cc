#include <gtest/gtest.h>

#include "libs/base/csv.hpp"

namespace nodus {
namespace {

TEST(Csv, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_text(""), "");
  EXPECT_EQ(csv_text("box-1"), "box-1");
  EXPECT_EQ(csv_text("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_text("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(csv_text("a\r\nb"), "a  b");
  EXPECT_EQ(csv_text(" a"), "\" a\"");
  EXPECT_EQ(csv_text("größe"), "größe");
}

TEST(Csv, NoTextIsAFormula) {
  for (const char* text : {"=1+1", "+1", "-1", "@SUM(A1)", "|cmd", "%0", "\t=1", " =1", "\"=1", "'=1"}) {
    const std::string cell = csv_text(text);
    EXPECT_TRUE(cell.starts_with("'") || cell.starts_with("\"'")) << text << " → " << cell;
  }
}

}  // namespace
}  // namespace nodus
