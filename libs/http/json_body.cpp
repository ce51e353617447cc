#include "libs/http/json_body.hpp"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/parse.hpp>
#include <set>
#include <string>
#include <vector>

namespace nodus::http {

namespace json = boost::json;

namespace {

constexpr size_t kNamed = 16;       // faults listed
constexpr size_t kPathBytes = 256;  // shown of a path

// Hears the document field by field. A path reads like spec.env.TOKEN, command[3].
class Duplicates {
 public:
  using Code = boost::system::error_code;
  using View = std::string_view;
  static constexpr size_t max_object_size = static_cast<size_t>(-1);
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);

  std::vector<Cause> found;

  bool on_object_begin(Code&) { return open(false); }
  bool on_array_begin(Code&) { return open(true); }
  bool on_object_end(size_t, Code&) { return close(); }
  bool on_array_end(size_t, Code&) { return close(); }
  bool on_key_part(View part, size_t, Code&) {
    key_.append(part);
    return true;
  }
  bool on_key(View part, size_t, Code&) {
    key_.append(part);
    auto& level = levels_.back();
    if (!level.keys.insert(key_).second && found.size() < kNamed)
      found.push_back({path() + key_.substr(0, kPathBytes), "FieldDuplicate", "This field is there twice."});
    level.key = std::exchange(key_, {});
    return true;
  }
  bool on_string(View, size_t, Code&) { return value(); }
  bool on_int64(int64_t, View, Code&) { return value(); }
  bool on_uint64(uint64_t, View, Code&) { return value(); }
  bool on_double(double, View, Code&) { return value(); }
  bool on_bool(bool, Code&) { return value(); }
  bool on_null(Code&) { return value(); }
  static bool on_string_part(View, size_t, Code&) { return true; }
  static bool on_number_part(View, Code&) { return true; }
  static bool on_document_begin(Code&) { return true; }
  static bool on_document_end(Code&) { return true; }
  static bool on_comment_part(View, Code&) { return true; }
  static bool on_comment(View, Code&) { return true; }

 private:
  struct Level {
    bool array = false;
    size_t index = 0;  // of the next element
    std::string key;
    std::set<std::string> keys;
  };

  bool value() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().index;
    return true;
  }
  bool open(bool array) {
    value();
    levels_.push_back({.array = array, .index = 0, .key = {}, .keys = {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }
  // Of the innermost object, to be followed by a field's name.
  std::string path() const {
    std::string out;
    for (size_t i = 0; i + 1 < levels_.size(); ++i) {
      const Level& level = levels_[i];
      out += level.array ? "[" + std::to_string(level.index - 1) + "]" : (out.empty() ? "" : ".") + level.key;
    }
    if (out.size() > kPathBytes) out.resize(kPathBytes);
    return out.empty() ? out : out + ".";
  }

  std::vector<Level> levels_;
  std::string key_;
};

std::unexpected<Error> not_json(const boost::system::error_code& fault) {
  return fail(nodus::Code::kBadRequest, "BadRequest", "The body is not JSON: " + fault.message() + ".");
}

}  // namespace

Result<json::object> parse_json_object(std::string_view body) {
  boost::system::error_code fault;
  auto value = json::parse(body, fault);
  if (fault) return not_json(fault);
  if (!value.is_object())
    return fail(nodus::Code::kBadRequest, "BadRequest", "The body is not a JSON object.");
  json::basic_parser<Duplicates> parser{json::parse_options{}};
  parser.write_some(false, body.data(), body.size(), fault);
  if (fault) return not_json(fault);
  auto& found = parser.handler().found;
  if (found.empty()) return std::move(value.get_object());
  Error error{nodus::Code::kBadRequest, "BadRequest", "The body names a field twice:", {}, {}, {}};
  for (const auto& cause : found) error.message += " " + cause.field;
  error.message += ". Send each field once.";
  error.causes = std::move(found);
  return std::unexpected(std::move(error));
}

}  // namespace nodus::http
