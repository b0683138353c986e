#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace ebb {
namespace {

TEST(ParseBytes, ReadsUnitsOf1024And1000) {
  EXPECT_EQ(parse_bytes("4096"), std::size_t{4096});
  EXPECT_EQ(parse_bytes("64KiB"), 64 * kKiB);
  EXPECT_EQ(parse_bytes("64 kib"), 64 * kKiB);
  EXPECT_EQ(parse_bytes("20GiB"), 20 * kGiB);
  EXPECT_EQ(parse_bytes("1.5G"), 3 * kGiB / 2);
  EXPECT_EQ(parse_bytes("1.5GB"), std::size_t{1500000000});
  EXPECT_EQ(parse_bytes("0"), std::size_t{0});
}

TEST(ParseBytes, RefusesWhatIsNotASizeAndQuotesIt) {
  for (const char* text : {"", "GiB", "-1", "1Q", "1 GiB more", "nan", "inf", "1e30", "99999999TiB"}) {
    const Result<std::size_t> parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
}

TEST(FormatBytes, PicksTheUnitThatReads) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(253113024), "241.4 MiB");
  EXPECT_EQ(format_bytes(20 * kGiB), "20.00 GiB");
}

TEST(CheckedArithmetic, NoticesOverflow) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(0, kMax), 0U);
  EXPECT_FALSE(checked_mul(kMax / 2 + 1, 2));
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
}

}  // namespace
}  // namespace ebb
