// The tables of services/scheduler/README.md, which the tests run cell by cell.
#pragma once

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace nodus::scheduler::test {

struct Table {
  std::vector<std::string> states;             // of the columns; the first cell is the head of the messages
  std::vector<std::vector<std::string>> rows;  // message, then a cell for each state
};

inline std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) {
    const auto first = cell.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? ""
                                             : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return out;
}

inline Table read_table(const std::string& head) {
  std::ifstream readme(NODUS_SOURCE_DIR "/services/scheduler/README.md");
  Table table;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with(head)) {
      table.states = cells(line);
    } else if (!table.states.empty() && !line.starts_with("|---")) {
      if (!line.starts_with("|")) break;
      table.rows.push_back(cells(line));
      if (table.rows.back().size() != table.states.size()) throw std::runtime_error("a ragged row: " + line);
    }
  }
  return table;
}

}  // namespace nodus::scheduler::test
