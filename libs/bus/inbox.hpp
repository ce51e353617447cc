// The rows of sql/inbox.sql: how far each topic is applied, and what is parked. Every function works inside
// the caller's transaction and throws pqxx exceptions.
#pragma once

#include <pqxx/pqxx>
#include <set>
#include <string>
#include <vector>

#include "libs/bus/bus.hpp"

namespace nodus::bus::inbox {

// Makes the row when there is none, so that move_offset always has one to lock.
Offset read_offset(pg::Tx& tx, const std::string& topic, int partition);
// Moves the offset from `expected` to `next`; false: another replica was faster, and the caller must abort.
bool move_offset(pg::Tx& tx, const std::string& topic, int partition, int64_t expected, const Offset& next);

std::set<std::string> parked_streams(pg::Tx& tx, const std::string& topic);
int64_t parked_count(pg::Tx& tx, const std::string& topic);
void park(pg::Tx& tx, const Message& message, const std::string& error);
// Locks the stream's last parked row against replay_parked and skip_parked; false: there is none (any more).
bool hold_parked(pg::Tx& tx, const std::string& topic, const std::string& stream);
std::optional<Parked> first_parked(pg::Tx& tx, const std::string& topic, const std::string& stream);
std::vector<Parked> list_parked(pg::Tx& tx, int limit);
bool remove_parked(pg::Tx& tx, int64_t id);  // false: it was gone already
void set_error(pg::Tx& tx, int64_t id, const std::string& error);
int remove_stream(pg::Tx& tx, const std::string& topic, const std::string& stream);

}  // namespace nodus::bus::inbox
