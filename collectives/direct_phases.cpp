#include "collectives/direct_phases.hpp"

#include <vector>

namespace ferrule::collectives {

void add_contributions(Builder& builder, std::int32_t rank, std::int32_t world) {
  std::vector<std::uint32_t> outgoing(static_cast<std::size_t>(world), kOwnInput);
  std::vector<std::uint32_t> incoming(static_cast<std::size_t>(world), kOwnInput);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(rank + i, world);
    outgoing[owner] = builder.encode_input(chunk_of(owner));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(rank + i, world);
    const std::int32_t source = wrap(rank - i, world);
    builder.send(owner, chunk_of(owner), outgoing[owner]);
    incoming[source] = builder.recv(source, chunk_of(rank));
  }
  for (const std::uint32_t contribution : incoming) builder.add(chunk_of(rank), contribution);
}

void spread(Builder& builder, std::int32_t rank, std::int32_t world, std::uint32_t own) {
  std::vector<std::uint32_t> incoming(static_cast<std::size_t>(world), own);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(rank - i, world);
    builder.send(wrap(rank + i, world), chunk_of(rank), own);
    incoming[source] = builder.recv(source, chunk_of(source));
  }
  for (std::int32_t i = 0; i < world; ++i) {
    const std::int32_t owner = wrap(rank - i, world);
    builder.decode(chunk_of(owner), incoming[owner]);
  }
}

}  // namespace ferrule::collectives
