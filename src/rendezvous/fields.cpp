#include "rendezvous/fields.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>

namespace ferrule::rendezvous {
namespace {

void append_u32(std::string& out, std::size_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::optional<std::size_t> take_u32(std::string_view& bytes) {
  if (bytes.size() < 4) return std::nullopt;
  std::size_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  bytes.remove_prefix(4);
  return value;
}

Status bad(std::size_t size) {
  return Status(ErrorCode::corrupt,
                fmt::format("a value of {} bytes in the store is not a list of fields; is the "
                            "group's name used by something else?",
                            size));
}

}  // namespace

std::string pack(const std::vector<std::string>& fields) {
  std::string bytes;
  append_u32(bytes, fields.size());
  for (const std::string& field : fields) {
    append_u32(bytes, field.size());
    bytes += field;
  }
  return bytes;
}

Result<std::vector<std::string>> unpack(std::string_view bytes) {
  const std::size_t size = bytes.size();
  const auto count = take_u32(bytes);
  if (!count || *count > bytes.size() / 4) return bad(size);
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < *count; ++i) {
    const auto length = take_u32(bytes);
    if (!length || *length > bytes.size()) return bad(size);
    fields.emplace_back(bytes.substr(0, *length));
    bytes.remove_prefix(*length);
  }
  if (!bytes.empty()) return bad(size);
  return fields;
}

}  // namespace ferrule::rendezvous
