#include "service/worker/run/graph_cache.h"

#include <functional>
#include <list>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "service/worker/common/limits.h"

namespace laneway::service {
namespace {

struct Entry {
  Entry(uint64_t hash, std::unique_ptr<KnownGraph> of) : key(hash), graph(std::move(of)) {}

  const uint64_t key;
  const std::unique_ptr<KnownGraph> graph;
  std::weak_ptr<KnownGraph> use;  // of the jobs that have it
  bool is_unused = true;
  std::list<std::shared_ptr<Entry>>::iterator unused_place;  // while it is
};
using EntryHandle = std::shared_ptr<Entry>;

}  // namespace

struct GraphCache::State {
  explicit State(Hash hash_function) : hash(hash_function) {}

  EntryHandle look_up(uint64_t key, std::span<const std::byte> bytes,
                      std::span<const ImageSlot> slots) const LW_REQUIRES(mutex);
  // `state`: this object's.
  static KnownGraphHandle use(const std::shared_ptr<State>& state, const EntryHandle& entry)
      LW_REQUIRES(state->mutex);
  // The last job that had it has it no more.
  void released(const EntryHandle& entry) LW_EXCLUDES(mutex);
  void forget(const EntryHandle& entry) LW_REQUIRES(mutex);

  const Hash hash;
  mutable Mutex mutex;
  std::unordered_multimap<uint64_t, EntryHandle> entries LW_GUARDED_BY(mutex);
  std::list<EntryHandle> unused LW_GUARDED_BY(mutex);  // the one used last is the last
  Bytes unused_bytes LW_GUARDED_BY(mutex);
};

EntryHandle GraphCache::State::look_up(uint64_t key, std::span<const std::byte> bytes,
                                       std::span<const ImageSlot> slots) const {
  const auto [begin, end] = entries.equal_range(key);
  for (auto at = begin; at != end; ++at) {
    if (at->second->graph->is(bytes, slots)) return at->second;
  }
  return nullptr;
}

KnownGraphHandle GraphCache::State::use(const std::shared_ptr<State>& state,
                                        const EntryHandle& entry) {
  if (KnownGraphHandle used = entry->use.lock()) return used;
  if (entry->is_unused) {
    state->unused.erase(entry->unused_place);
    state->unused_bytes -= entry->graph->size();
    entry->is_unused = false;
  }
  // Who watches a handle (weak_ptr) keeps what it has, which is no graph afterwards.
  KnownGraphHandle first(entry->graph.get(), [in = state, its = entry](KnownGraph*) mutable {
    const std::shared_ptr<State> of = std::move(in);
    const EntryHandle last = std::move(its);
    of->released(last);
  });
  entry->use = first;
  return first;
}

void GraphCache::State::released(const EntryHandle& entry) {
  std::vector<EntryHandle> gone;  // destroyed with the mutex not held
  const MutexLock lock(mutex);
  // A job may have got it meanwhile, and even released it.
  if (entry->is_unused || !entry->use.expired()) return;
  entry->use.reset();
  entry->is_unused = true;
  entry->unused_place = unused.insert(unused.end(), entry);
  unused_bytes += entry->graph->size();
  while (unused.size() > limits::kMaxUnusedGraphs || unused_bytes > limits::kMaxUnusedGraphBytes) {
    gone.push_back(unused.front());
    forget(gone.back());
  }
}

void GraphCache::State::forget(const EntryHandle& entry) {
  unused_bytes -= entry->graph->size();
  unused.erase(entry->unused_place);
  const auto [begin, end] = entries.equal_range(entry->key);
  for (auto at = begin; at != end; ++at) {
    if (at->second != entry) continue;
    entries.erase(at);
    return;
  }
}

uint64_t GraphCache::hash_of(std::span<const std::byte> bytes) {
  return std::hash<std::string_view>()(
      std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

GraphCache::GraphCache(Hash hash) : state_(std::make_shared<State>(hash)) {}

KnownGraphHandle GraphCache::find(std::span<const std::byte> bytes,
                                  std::span<const ImageSlot> slots) {
  const uint64_t key = state_->hash(bytes);
  const MutexLock lock(state_->mutex);
  const EntryHandle entry = state_->look_up(key, bytes, slots);
  return entry == nullptr ? nullptr : State::use(state_, entry);
}

KnownGraphHandle GraphCache::add(std::span<const std::byte> bytes, std::span<const ImageSlot> slots,
                                 adaptor::ProgramHandle program) {
  const uint64_t key = state_->hash(bytes);
  auto made = std::make_unique<KnownGraph>(bytes, slots, std::move(program));
  const MutexLock lock(state_->mutex);
  EntryHandle entry = state_->look_up(key, bytes, slots);
  if (entry == nullptr) {
    entry = std::make_shared<Entry>(key, std::move(made));
    entry->unused_place = state_->unused.insert(state_->unused.end(), entry);
    state_->unused_bytes += entry->graph->size();
    state_->entries.emplace(key, entry);
  }
  return State::use(state_, entry);
}

GraphOrigin GraphCache::origin_of(KnownGraphHandle known, const adaptor::DeviceGraph& made,
                                  std::span<const std::byte> bytes,
                                  std::span<const ImageSlot> slots) {
  if (known == nullptr) return {.known = add(bytes, slots, made.program())};
  // The device may have had to resolve it in another way: then its memory is another one, too.
  if (known->program() != made.program()) return {};
  return {.known = std::move(known), .was_known = true};
}

Result<GraphCache::Job> GraphCache::make_job(adaptor::Backend& backend,
                                             const std::vector<ImageSlot>& slots,
                                             std::span<const std::byte> graph, Bytes pool) {
  KnownGraphHandle known = find(graph, slots);
  auto made =
      adaptor::make_job(backend, slots, graph, pool, known != nullptr ? known->program() : nullptr);
  if (!made) return made.error();
  Job job{.made = std::move(made).value(), .origin = {}};
  job.origin = origin_of(std::move(known), *job.made.graph, graph, slots);
  return job;
}

Result<GraphCache::Graph> GraphCache::make_graph(adaptor::DeviceJob& job,
                                                 std::span<const std::byte> graph, Bytes most) {
  const std::span<const ImageSlot> slots = job.layout().slots();
  KnownGraphHandle known = find(graph, slots);
  auto made = job.make_graph(graph, most, known != nullptr ? known->program() : nullptr);
  if (!made) return made.error();
  Graph result{.made = std::move(made).value(), .origin = {}};
  result.origin = origin_of(std::move(known), *result.made, graph, slots);
  return result;
}

GraphCache::Counts GraphCache::counts() const {
  const MutexLock lock(state_->mutex);
  return {.known = state_->entries.size(), .unused = state_->unused.size()};
}

}  // namespace laneway::service
