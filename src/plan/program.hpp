// A schedule, made ready to run: additions fused into the encode or decode that uses them, receives listed
// apart so that all of them can be posted at once, and each slot told where its bytes live.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"

namespace ferrule::plan {

/// Where the bytes of a slot are.
enum class SlotHome : std::uint8_t {
  scratch,   ///< written by this rank, in its scratch memory
  received,  ///< a view of what a peer sent
  input,     ///< raw codec: the chunk of the input itself, nothing is copied
  output,    ///< raw codec: the chunk of the output itself
};

/// The level of a slot that holds plain elements: a sum between two levels (Instruction::Kind::fold).
inline constexpr std::uint8_t kPlainLevel = 0xff;

struct Slot {
  SlotHome home = SlotHome::scratch;
  std::uint8_t level = 0;  ///< of the codec that its bytes are in, or kPlainLevel
  bool raw = false;        ///< its bytes are elements: of an identity codec, or plain
  std::uint32_t chunk = 0;
  std::uint32_t index = 0;  ///< scratch: which scratch slot. received: which receive.
  std::uint32_t uses = 0;   ///< sends and terms that read it
};

/// One instruction. encode: terms -> slot. decode: terms -> output of the chunk. send: slot -> peer. fold:
/// terms
/// -> slot of plain elements, where a sum has terms of a codec that the one of its encode cannot read.
struct Instruction {
  enum class Kind : std::uint8_t { encode, decode, send, fold };
  Kind kind = Kind::encode;
  std::uint8_t level = 0;  ///< encode, decode and fold: of the codec that does it
  collectives::ErrorKept error = collectives::ErrorKept::add;
  bool final = false;           ///< encode: every rank will decode this value as its output
  bool keeps_residual = false;  ///< decode: takes the own input, of which this rank encodes nothing
  bool copies_nothing = false;  ///< raw codec: source and destination are the same memory
  std::uint32_t chunk = 0;
  std::uint32_t slot = 0;        ///< encode, fold and send
  std::uint32_t first_term = 0;  ///< encode, decode and fold: terms are Program::terms[first_term ...]
  std::uint32_t term_count = 0;
  std::int32_t peer = -1;       ///< send
  std::uint32_t ordinal = 0;    ///< send: this is the ordinal-th message to that peer
  std::uint32_t index = 0;      ///< send: number of this send
  std::int32_t noise_rank = 0;  ///< encode
};

struct Receive {
  std::uint32_t slot = 0;
  std::uint32_t chunk = 0;
  std::int32_t peer = -1;
  std::uint32_t ordinal = 0;
};

/// What one rank does for one slice. Terms name slots, or collectives::kOwnInput.
struct Program {
  std::vector<Instruction> instructions;
  std::vector<Receive> receives;
  std::vector<Slot> slots;
  std::vector<std::uint32_t> terms;
  std::uint32_t sends = 0;
  std::uint32_t scratch_slots = 0;
};

/// What lower() needs to know of a level's codec.
struct LevelCodec {
  std::uint32_t codec = 0;  ///< equal for levels with the same one
  bool identity = false;  ///< its wire bytes are the elements: copies are left out where nothing can go wrong
};

/// `levels`: by level, those that the schedule uses at least. An error means that the schedule breaks its own
/// rules (a slot read before it is written, a bad number).
Result<Program> lower(const collectives::Schedule& schedule, std::span<const LevelCodec> levels,
                      const collectives::Contract& contract = {});

}  // namespace ferrule::plan
