// Double binary tree: two trees over all ranks carry half of the tensor each, and an inner node of one is a
// leaf of the other, so that every link works in both directions all the time.
//
// P. Sanders, J. Speck and J. L. Traff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35(12), 2009. The depth grows with log2 N, and so do latency and the number of
// encodes.
//
// The first tree numbers its nodes in order: even positions are leaves, odd ones are inner nodes, which form
// a balanced search tree. The second tree is the same one mirrored (even N) or moved on by one rank (odd N),
// which exchanges odd and even: no rank is an inner node of both.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: at most 2 B (half of it to the parent in each
// tree and to two children in one of them); 1.5 B for N = 3 and B for N = 2.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t kTrees = 2;

// The neighbours of a node: positions or ranks, -1 for none.
struct Node {
  std::int32_t parent = -1;
  std::int32_t left = -1;
  std::int32_t right = -1;

  bool is_leaf() const { return left < 0; }  // an inner node always has a left child
  bool is_root() const { return parent < 0; }
};

// Position of the inner node at the root of inner nodes [first, last).
std::int32_t middle(std::int32_t first, std::int32_t last) { return 2 * ((first + last) / 2) + 1; }

// The node at a position of the first tree: O(log N), a walk from the root.
Node node_at(std::int32_t position, std::int32_t world) {
  Node node;
  std::int32_t first = 0;
  std::int32_t last = world / 2;
  while (first < last) {
    const std::int32_t here = middle(first, last);
    const std::int32_t index = here / 2;
    if (position == here) {
      node.left = first < index ? middle(first, index) : here - 1;
      node.right = index + 1 < last ? middle(index + 1, last) : here + 1;
      if (node.right >= world) node.right = -1;
      break;
    }
    node.parent = here;
    (position < here ? last : first) = position < here ? index : index + 1;
  }
  return node;
}

// Rank to position and back in the second tree; the mirror is its own inverse.
std::int32_t second_position(std::int32_t rank, std::int32_t world) {
  return world % 2 == 0 ? world - 1 - rank : wrap(rank - 1, world);
}
std::int32_t second_rank(std::int32_t position, std::int32_t world) {
  if (position < 0) return position;
  return world % 2 == 0 ? world - 1 - position : wrap(position + 1, world);
}

std::array<Node, kTrees> nodes_of(std::int32_t rank, std::int32_t world) {
  const Node second = node_at(second_position(rank, world), world);
  return {node_at(rank, world),
          {.parent = second_rank(second.parent, world),
           .left = second_rank(second.left, world),
           .right = second_rank(second.right, world)}};
}

// Writes the steps of one rank. A rank is a leaf of at least one tree; its batches mix the two trees so that
// no rank waits for a child or a parent before its own contribution is on offer:
//   1. send the contributions as a leaf; receive those of the children
//   2. as an inner node below the root: send the sum up, receive the result
//   3. send the result down; receive the results as a leaf
// Batch 1 completes from the leaves upwards, batches 2 and 3 from the roots downwards.
class Walk {
 public:
  Walk(std::int32_t rank, std::int32_t world)
      : builder_(rank, world, kTrees), nodes_(nodes_of(rank, world)) {}

  Schedule build() {
    reduce();
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
      if (!nodes_[tree].is_leaf() && !nodes_[tree].is_root()) exchange_with_parent(tree);
    }
    broadcast();
    return builder_.take();
  }

 private:
  void reduce() {
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
      if (nodes_[tree].is_leaf()) slots_[tree] = builder_.encode_input(tree);
    }
    std::array<std::vector<std::uint32_t>, kTrees> terms;
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) terms[tree] = collect(tree);
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
      if (nodes_[tree].is_leaf()) continue;
      for (const std::uint32_t term : terms[tree]) builder_.add(tree, term);
      slots_[tree] = builder_.encode_sum(tree);
    }
  }

  // Batch 1, one tree's part. Returns what an inner node adds, in order.
  std::vector<std::uint32_t> collect(std::uint32_t tree) {
    const Node& node = nodes_[tree];
    if (node.is_leaf()) {
      builder_.send(node.parent, tree, slots_[tree]);
      return {};
    }
    std::vector<std::uint32_t> terms{builder_.recv(node.left, tree), kOwnInput};
    if (node.right >= 0) terms.push_back(builder_.recv(node.right, tree));
    return terms;
  }

  // Batch 2. The decode belongs here: it keeps batch 3, which sends what this one receives, apart from it.
  void exchange_with_parent(std::uint32_t tree) {
    builder_.send(nodes_[tree].parent, tree, slots_[tree]);
    slots_[tree] = builder_.recv(nodes_[tree].parent, tree);
    builder_.decode(tree, slots_[tree]);
  }

  // Batch 3, and the decodes that can wait until it is posted.
  void broadcast() {
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) pass_down(tree);
    for (std::uint32_t tree = 0; tree < kTrees; ++tree) {
      if (nodes_[tree].is_leaf() || nodes_[tree].is_root()) builder_.decode(tree, slots_[tree]);
    }
  }

  void pass_down(std::uint32_t tree) {
    const Node& node = nodes_[tree];
    if (node.is_leaf()) {
      slots_[tree] = builder_.recv(node.parent, tree);
      return;
    }
    builder_.send(node.left, tree, slots_[tree]);
    if (node.right >= 0) builder_.send(node.right, tree, slots_[tree]);
  }

  Builder builder_;
  std::array<Node, kTrees> nodes_;
  std::array<std::uint32_t, kTrees> slots_{};  // the bytes that each tree's next send takes
};

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  return world == 1 ? single_rank_schedule() : Walk(rank, world).build();
}

// The number of nodes from a deepest leaf to the root: 1 + floor(log2 N).
std::uint32_t encodes(const Topology& topology) {
  const std::int32_t world = topology.world();
  return world == 1 ? 0 : static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(world)));
}

// An inner node below the root: one as a leaf, one to its parent, two to its children. Smaller worlds have
// none with two children.
std::uint32_t chunks_sent(const Topology& topology) {
  const std::int32_t world = topology.world();
  return world == 1 ? 0 : static_cast<std::uint32_t>(std::min(world, 4));
}

}  // namespace

AlgorithmDesc tree_algorithm() {
  return {
      .name = "tree", .build = build, .encodes = encodes, .chunks_sent = chunks_sent, .rank_order = false};
}

}  // namespace ferrule::collectives
