// Every field of the API's objects, once: the manifest's check for unknown fields and the OpenAPI document
// are both read from here, so they cannot drift apart; a test renders objects and finds each of their fields
// here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nodus::lifecycle {

struct Field {
  enum class Type {
    kObject,
    kString,
    kInteger,
    kBoolean,
    kStrings,
    kList,
    kNumbers,
    kObjects,
    kConditions,
    kInstant,
    kQuantity
  };
  std::string_view path;  // "spec.resources.cpu"; parents come before their members
  Type type = Type::kString;
  std::string_view description;
  std::string_view fallback = {};  // its default
  std::string_view values = {};    // "Deny|Open"
  bool required = false;
  bool ours = false;  // written by the platform: taken and ignored in a request
};

std::span<const Field> sandbox_fields();
std::span<const Field> process_fields();
std::span<const Field> event_fields();
std::span<const Field> budget_fields();

// May a request name this field of a Sandbox? `parent` is "" for the object itself.
bool known_field(std::string_view parent, std::string_view name);

}  // namespace nodus::lifecycle
