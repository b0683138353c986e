// Proof that the names of .clang-tidy are enforced: each line marked `reject` must be refused, and no other line.
// Nothing builds this file; the test `naming` (check_tidy.py --proof) reads it.
namespace BadSpace {}  // reject
namespace ebb::sample {

class bad_class {};              // reject
enum class Kind { kBadEntry };   // reject
enum class Block { Q4_K, IQ4_NL, F32 };
constexpr int bad_limit = 3;     // reject
constexpr int kGoodLimit = 3;
#define BAD_PREFIX 1             // reject
using badAlias = int;            // reject

class Holder {
 public:
  int badMethod() { return bad_member; }          // reject
  int good_method(int BadParameter) { return good_member_ + BadParameter; }  // reject

 private:
  int bad_member = 0;  // reject
  int good_member_ = kGoodLimit + bad_limit + BAD_PREFIX;
};

struct View {
  int good_field = 0;
  int badField = 0;  // reject
};

inline int BadFunction() {  // reject
  int badLocal = 1;         // reject
  return badLocal;
}

}  // namespace ebb::sample
