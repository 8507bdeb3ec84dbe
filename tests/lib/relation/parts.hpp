#pragma once

#include <algorithm>
#include <barrier>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/mailbox.hpp"
#include "rossby/relation/row_partition.hpp"
#include "tests/support/shuffled_rows.hpp"

namespace rossby::test {

/// P parts as threads of one process.
class ThreadMailbox final : public Mailbox {
 public:
  struct Room {
    explicit Room(int parts) : letters(static_cast<std::size_t>(parts)), barrier(parts) {}
    std::vector<std::vector<std::vector<std::byte>>> letters;  // by sender, by receiver
    std::barrier<> barrier;
  };

  ThreadMailbox(Room& room, int part) : room_(room), part_(part) {}
  [[nodiscard]] int part() const override { return part_; }
  [[nodiscard]] int parts() const override { return static_cast<int>(room_.letters.size()); }
  [[nodiscard]] std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> letters) override {
    room_.letters[static_cast<std::size_t>(part_)] = std::move(letters);
    room_.barrier.arrive_and_wait();
    std::vector<std::vector<std::byte>> received;
    for (auto& sender : room_.letters) received.push_back(std::move(sender[static_cast<std::size_t>(part_)]));
    room_.barrier.arrive_and_wait();
    return received;
  }

 private:
  Room& room_;
  int part_;
};

/// The results of the collective `work(mailbox)` on P parts, or the errors that it threw.
template <class T>
struct Outcome {
  T value{};
  std::exception_ptr error;
};

/// Runs `work` on P parts at once. A part that throws leaves the barrier, so that the others do not hang.
template <class Work>
auto outcomes_of_parts(int parts, const Work& work) {
  using Result = decltype(work(std::declval<Mailbox&>()));
  std::vector<Outcome<Result>> outcomes(static_cast<std::size_t>(parts));
  ThreadMailbox::Room room(parts);
  std::vector<std::thread> threads;
  for (int p = 0; p < parts; ++p)
    threads.emplace_back([&, p] {
      ThreadMailbox mailbox(room, p);
      auto& outcome = outcomes[static_cast<std::size_t>(p)];
      try {
        outcome.value = work(mailbox);
      } catch (...) {
        outcome.error = std::current_exception();
        room.letters[static_cast<std::size_t>(p)].assign(static_cast<std::size_t>(parts), {});
        room.barrier.arrive_and_drop();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

/// The same if no error is expected; rethrows the first one.
template <class Work>
auto on_parts(int parts, const Work& work) {
  using Result = decltype(work(std::declval<Mailbox&>()));
  std::vector<Result> results;
  for (auto& outcome : outcomes_of_parts(parts, work)) {
    if (outcome.error) std::rethrow_exception(outcome.error);
    results.push_back(std::move(outcome.value));
  }
  return results;
}

/// Entries of one (row, relation): columns and values.
using List = std::vector<std::pair<Index, double>>;
/// Relations of all nodes by global row: [row][relation].
using Lists = std::vector<std::vector<List>>;

/// The union of the parts' blocks. Fails if a row is missing or the shape of a block is inconsistent.
inline Lists united(const std::vector<GlobalEdges>& blocks, const RowPartition& partition) {
  Lists lists(static_cast<std::size_t>(partition.rows()));
  for (int p = 0; p < partition.parts(); ++p) {
    const GlobalEdges& block = blocks[static_cast<std::size_t>(p)];
    if (block.rows != partition.size(p)) throw std::logic_error("a block has the wrong number of rows");
    if (block.ptr.size() != static_cast<std::size_t>(block.rows * block.relations) + 1 ||
        block.ptr.front() != 0 || block.ptr.back() != block.entries() ||
        block.column.size() != block.value.size())
      throw std::logic_error("a block's arrays do not fit together");
    for (Index i = 0; i < block.rows; ++i) {
      const GlobalRow row = partition.global(Position{partition.begin(p) + i});
      for (int k = 0; k < block.relations; ++k) {
        List list;
        for (Index e = block.begin(i, k); e < block.end(i, k); ++e)
          list.emplace_back(block.column[static_cast<std::size_t>(e)].value,
                            block.value[static_cast<std::size_t>(e)]);
        for (std::size_t e = 1; e < list.size(); ++e)
          if (list[e - 1].first >= list[e].first) throw std::logic_error("columns do not ascend");
        lists[static_cast<std::size_t>(row.value)].push_back(std::move(list));
      }
    }
  }
  return lists;
}

/// Part counts at which every distributed result is compared with P = 1.
inline constexpr int part_counts[] = {1, 2, 3, 4, 7};

/// Partitions: contiguous blocks, shuffled owners, every second part empty, and rows in random order within
/// blocks and within scattered parts.
inline std::vector<RowPartition> partitions(Index rows, int parts) {
  std::vector<RowPartition> all{RowPartition::blocks(rows, parts)};
  const Random random(11, "owners");
  std::vector<int> owners;
  for (Index i = 0; i < rows; ++i)
    owners.push_back(
        static_cast<int>(random.bits(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(parts)));
  all.push_back(RowPartition::from_owners(owners, parts));
  for (int& owner : owners) owner -= owner % 2;
  all.push_back(RowPartition::from_owners(owners, parts));
  all.push_back(shuffled_rows(all[0]));
  all.push_back(shuffled_rows(all[1]));
  return all;
}

/// The slice of a list that part p of P reads from a file.
template <class T>
std::span<const T> slice(const std::vector<T>& list, int part, int parts) {
  const std::size_t begin = list.size() * static_cast<std::size_t>(part) / static_cast<std::size_t>(parts);
  const std::size_t end =
      list.size() * (static_cast<std::size_t>(part) + 1) / static_cast<std::size_t>(parts);
  return std::span(list).subspan(begin, end - begin);
}

}  // namespace rossby::test
