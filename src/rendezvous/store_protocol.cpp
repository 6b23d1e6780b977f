#include "rendezvous/store_protocol.hpp"

#include <fmt/format.h>

#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {
namespace {

template <class Byte>
std::uint64_t load(const Byte* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

void append(std::string& out, std::uint64_t value, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

Status bad(std::string_view what, std::uint64_t value) {
  return Status(ErrorCode::corrupt, fmt::format("not a store frame: {} is {:#x}", what, value));
}

bool is_known(StoreOperation operation) {
  switch (operation) {
    case StoreOperation::hello:
    case StoreOperation::set:
    case StoreOperation::get:
    case StoreOperation::proof:
    case StoreOperation::ok:
    case StoreOperation::absent:
    case StoreOperation::refused:
    case StoreOperation::wrong_job:
    case StoreOperation::challenge:
    case StoreOperation::no_access:
      return true;
  }
  return false;
}

bool is_of_strangers(StoreOperation operation) {
  return operation == StoreOperation::hello || operation == StoreOperation::proof ||
         operation == StoreOperation::wrong_job || operation == StoreOperation::challenge ||
         operation == StoreOperation::no_access;
}

}  // namespace

Result<StoreFrame> StoreFrame::parse(const Header& header) {
  const std::uint64_t magic = load(header.data(), 4);
  if (magic != kMagic) return bad("its magic", magic);
  if (header[4] != kVersion) return bad("its version", header[4]);
  StoreFrame frame{static_cast<StoreOperation>(header[5]), load(header.data() + 6, 2),
                   load(header.data() + 8, 4)};
  if (!is_known(frame.operation)) return bad("its operation", header[5]);
  if (frame.key_bytes > Store::kMaxKeyBytes) return bad("its key length", frame.key_bytes);
  const bool stranger = is_of_strangers(frame.operation);
  if (stranger && frame.key_bytes != 0) return bad("its key length", frame.key_bytes);
  if (frame.value_bytes > (stranger ? kMaxStrangerBytes : Store::kMaxValueBytes)) {
    return bad("its value length", frame.value_bytes);
  }
  return frame;
}

std::string make_frame(StoreOperation operation, std::string_view key, std::string_view value) {
  std::string frame;
  frame.reserve(StoreFrame::kHeaderBytes + key.size() + value.size());
  append(frame, StoreFrame::kMagic, 4);
  append(frame, StoreFrame::kVersion, 1);
  append(frame, static_cast<std::uint8_t>(operation), 1);
  append(frame, key.size(), 2);
  append(frame, value.size(), 4);
  return frame.append(key).append(value);
}

std::string encode_u64(std::uint64_t value) {
  std::string bytes;
  append(bytes, value, 8);
  return bytes;
}

std::uint64_t decode_u64(std::string_view bytes) { return load(bytes.data(), 8); }

}  // namespace ferrule::rendezvous
