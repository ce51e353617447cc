// Visits a variant with one lambda a case: std::visit(Overloaded{[](const A&) {…}, [](const B&) {…}},
// variant).
#pragma once

namespace nodus {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace nodus
