#include "simulator/images.h"

#include <algorithm>

namespace laneway::simulator {

using namespace lanes;  // NOLINT: the vocabulary of this file

void Images::carry_out(TimePoint now, const PlaceImage& asked) {
  in_.add(now, {asked.job, Link::What::place, asked.size - asked.prefix.size});
}

void Images::carry_out(TimePoint now, const EvictImage& asked) {
  stop_saving(now, asked.job);
  Image& leaves = image(asked.job);
  const bool equal = leaves.clean && leaves.copy == asked.to;
  leaves.copy = asked.to;
  // What has to be copied waits for the link, what has not does not.
  Link& way = equal ? inside_ : out_;
  way.add(now, {asked.job, Link::What::evict, equal ? Bytes() : asked.size});
}

void Images::carry_out(TimePoint now, const SaveImage& asked) {
  Image& saved = image(asked.job);
  saved.saving = true;
  saved.clean = false;
  saved.copy = asked.to;
  out_.add(now, {asked.job, Link::What::save, asked.size});
}

void Images::carry_out(TimePoint now, const MoveImage& asked) {
  inside_.add(now, {asked.job, Link::What::move, asked.size});
}

void Images::carry_out(TimePoint now, const DropImage& asked) {
  for (Link* link : {&in_, &out_, &inside_}) link->drop(now, asked.job);
  Image& gone = image(asked.job);
  gone.clean = gone.saving = false;
}

void Images::written(TimePoint now, JobId job) {
  stop_saving(now, job);
  Image& dirty = image(job);
  if (!dirty.clean) return;
  dirty.clean = false;
  events_.emplace_back(ImageDirty{job});
}

void Images::stop_saving(TimePoint now, JobId job) {
  Image& stopped = image(job);
  if (!stopped.saving) return;
  stopped.saving = false;
  out_.drop(now, job);
  events_.emplace_back(ImageSaved{job, /*whole=*/false});
}

TimePoint Images::next() const { return std::min({in_.next(), out_.next(), inside_.next()}); }

void Images::finish(TimePoint now) {
  for (Link* link : {&inside_, &out_, &in_}) {
    while (link->next() <= now) done(link->finish(now));
  }
}

void Images::done(const Link::Transfer& transfer) {
  Image& copied = image(transfer.job);
  switch (transfer.what) {
    case Link::What::place:
    case Link::What::move: events_.emplace_back(ImagePlaced{transfer.job}); break;
    case Link::What::evict:
      copied.clean = true;
      ++copied.evictions;
      ++evictions_;
      events_.emplace_back(ImageLeft{transfer.job});
      break;
    case Link::What::save:
      copied.clean = true;
      copied.saving = false;
      events_.emplace_back(ImageSaved{transfer.job, /*whole=*/true});
      break;
  }
}

}  // namespace laneway::simulator
