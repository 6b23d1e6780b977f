#include "bench/schema_check.hpp"

#include <algorithm>
#include <fstream>
#include <set>

namespace ferrule::bench {
namespace {

using Json = nlohmann::json;

class SchemaCheck {
 public:
  explicit SchemaCheck(const Json& root) : root_(root) {}

  void check(const Json& schema, const Json& value, const std::string& where) {
    if (schema.contains("$ref")) return check(resolved(schema["$ref"]), value, where);
    check_keywords(schema, where);
    if (schema.contains("const") && value != schema["const"]) fail(where, "is not " + schema["const"].dump());
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
      fail(where, "is none of " + schema["enum"].dump());
    if (schema.contains("type") && !has_type(schema["type"], value))
      fail(where, "is no " + schema["type"].dump());
    if (schema.contains("minimum") && value.is_number() &&
        value.get<double>() < schema["minimum"].get<double>())
      fail(where, "is too small");
    check_members(schema, value, where);
  }

  std::vector<std::string> failures;

 private:
  void fail(const std::string& where, const std::string& what) { failures.push_back(where + " " + what); }

  const Json& resolved(const Json& reference) const {
    return root_.at(Json::json_pointer(reference.get<std::string>().substr(1)));
  }

  void check_keywords(const Json& schema, const std::string& where) {
    static const std::set<std::string> known{"$schema", "title",   "$defs",    "const",      "enum",
                                             "type",    "minimum", "required", "properties", "items"};
    for (const auto& [keyword, unused] : schema.items()) {
      if (!known.contains(keyword))
        fail(where, "uses the keyword " + keyword + ", which this checker does not know");
    }
  }

  static bool has_one_type(const std::string& type, const Json& value) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  static bool has_type(const Json& types, const Json& value) {
    if (types.is_string()) return has_one_type(types, value);
    return std::any_of(types.begin(), types.end(),
                       [&](const Json& type) { return has_one_type(type, value); });
  }

  void check_members(const Json& schema, const Json& value, const std::string& where) {
    for (const auto& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) fail(where, "lacks " + name.get<std::string>());
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, of_member] : properties.items()) {
      if (value.is_object() && value.contains(name)) check(of_member, value[name], where + "/" + name);
    }
    for (std::size_t i = 0; schema.contains("items") && value.is_array() && i < value.size(); ++i)
      check(schema["items"], value[i], where + "/" + std::to_string(i));
  }

  const Json& root_;
};

}  // namespace

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::vector<std::string> violations(const nlohmann::json& schema, const nlohmann::json& document) {
  SchemaCheck checker(schema);
  checker.check(schema, document, "");
  return checker.failures;
}

}  // namespace ferrule::bench
