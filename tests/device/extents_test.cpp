#include "device/internal/extents.h"

#include <gtest/gtest.h>

namespace ebb::device {
namespace {

TEST(Extents, HandsOutNeighboursFirst) {
  Extents extents;
  EXPECT_EQ(extents.take(4), 0u);
  EXPECT_EQ(extents.take(4), 4u);
  EXPECT_EQ(extents.take(8), 8u);
  EXPECT_EQ(extents.end(), 16u);
}

TEST(Extents, ReusesTheLowestRangeThatIsLargeEnough) {
  Extents extents;
  for (int i = 0; i < 4; ++i) static_cast<void>(extents.take(4));
  extents.give_back(0, 4);
  extents.give_back(8, 4);
  EXPECT_EQ(extents.take(2), 0u);
  EXPECT_EQ(extents.take(4), 8u);
  EXPECT_EQ(extents.take(2), 2u);
  EXPECT_EQ(extents.end(), 16u);
}

TEST(Extents, JoinsNeighboursInEveryOrder) {
  for (const std::size_t last : {0u, 4u, 8u}) {
    Extents extents;
    for (int i = 0; i < 3; ++i) static_cast<void>(extents.take(4));
    for (const std::size_t offset : {8u, 0u, 4u}) {
      if (offset != last) extents.give_back(offset, 4);
    }
    extents.give_back(last, 4);
    EXPECT_EQ(extents.take(12), 0u) << "last given back: " << last;
    EXPECT_EQ(extents.end(), 12u);
  }
}

}  // namespace
}  // namespace ebb::device
