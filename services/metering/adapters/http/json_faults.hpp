// Reads the fields of a JSON object that a client sent, and gathers everything that is wrong with them.
#pragma once

#include <boost/json/object.hpp>
#include <initializer_list>
#include <string>
#include <string_view>

#include "libs/base/error.hpp"

namespace nodus::metering {

class JsonFaults {
 public:
  // `message` is the error's, `unknown` what is said of a field that there is not.
  JsonFaults(std::string message, std::string unknown);

  void add(std::string field, std::string reason, std::string message);
  void value(std::string field, std::string message);  // FieldValueInvalid
  void only(const boost::json::object& in, const std::string& path,
            std::initializer_list<std::string_view> known);

  // A field that is not there, null or of another type (a fault, at `path`) is null, "" or `otherwise`.
  const boost::json::object* object(const boost::json::object& in, std::string_view name,
                                    const std::string& path);
  std::string text(const boost::json::object& in, std::string_view name, const std::string& path,
                   const char* wanted = "A string goes here.");
  int whole_number(const boost::json::object& in, std::string_view name, const std::string& path,
                   int otherwise);
  bool required_switch(const boost::json::object& in, std::string_view name, const std::string& path);

  Error& error() { return error_; }  // Invalid, with a cause for each fault
  bool any() const { return !error_.causes.empty(); }

 private:
  Error error_;
  std::string unknown_;
};

}  // namespace nodus::metering
