#include "simulator/option_texts.h"

#include <CLI/CLI.hpp>

#include "base/version.h"
#include "simulator/core_settings.h"

namespace laneway::simulator {
namespace {

constexpr const char* kFooter =
    "Sizes take KiB, MiB and GiB (binary), such as 16GiB.\n"
    "Exit codes: 0 ended as asked, 1 failed, 2 wrong usage.";

void declare_jobs(CLI::App& app, Texts& texts) {
  app.add_option("--trace", texts.trace,
                 "jobs, one a line: CSV with a header; or what `lanewayd --trace` recorded")
      ->type_name("FILE");
  app.add_option(
         "--generate", texts.generate,
         "instead of a trace: so many jobs, drawn from the seed in the shape of Salus' trace")
      ->type_name("JOBS");
  app.add_option("--save-trace", texts.save_trace, "write the generated jobs there as a trace")
      ->type_name("FILE");
  app.add_option("--format", texts.format,
                 "laneway, philly, tiresias or record; default: by the trace's beginning")
      ->type_name("FORMAT");
  app.add_option("--where", texts.where, "only jobs whose column has this value; repeatable")
      ->type_name("COLUMN=VALUE")
      ->allow_extra_args(false);
  app.add_option("--rows", texts.rows,
                 "of these, by submission time, those from A on up to B, exclusive, from 0; time "
                 "starts with the first of them")
      ->type_name("A:B");
  app.add_option("--estimates", texts.estimates,
                 "what clients say an iteration takes: trace (default) what the trace has, or none")
      ->type_name("trace|none");
}

void declare_device(CLI::App& app, Texts& texts) {
  app.add_option("--policy", texts.policy,
                 "who runs next: NAME[:key=value...], or the file of a policy, such as ./mine.py; "
                 "several with commas; default: fifo")
      ->type_name("POLICY,...");
  app.add_option("--policy-patience", texts.policy_patience,
                 "how long a policy's file may think about one instant; default: 10")
      ->type_name("SECONDS");
  app.add_option("--devices", texts.devices,
                 "equal devices; a job goes to the one with the least work left; default: 1")
      ->type_name("K");
  app.add_option("--lanes", texts.lanes, "equal lanes of each device; default: 1")->type_name("N");
  app.add_option("--pairs", texts.pairs,
                 "how fast two jobs compute beside each other: CSV with the columns job_a, job_b "
                 "(as the trace's model_name), norm_a, norm_b (of the speed alone); default: each "
                 "lane is at full speed")
      ->type_name("FILE");
  app.add_option("--open-lanes", texts.open_lanes,
                 "with --pairs or --calibration: all (default), or measured: only as many as pay, "
                 "found as a service "
                 "does")
      ->type_name("all|measured");
  app.add_option("--memory", texts.memory,
                 "of each device, for images and regions; default: so much that it does not matter")
      ->type_name("SIZE");
  app.add_option("--reserve", texts.reserve, "of it, never given to jobs; default: 0")
      ->type_name("SIZE");
  app.add_option("--copy-bandwidth", texts.copy_bandwidth,
                 "bytes per second at which images come, and leave; default: copies take no time")
      ->type_name("SIZE");
  app.add_option(
         "--store", texts.store,
         "for images outside of the device's memory; default: as much as all of them take, and "
         "none without --memory")
      ->type_name("SIZE");
  app.add_option("--set", texts.settings,
                 "a time or limit of the core; repeatable; keys: " + setting_keys())
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--jitter", texts.jitter,
                 "the iterations of each turn take a time drawn evenly from (1 - F) to (1 + F) of "
                 "what the trace says; default: 0")
      ->type_name("F");
  app.add_option("--turn-gap", texts.turn_gap,
                 "from a turn's grant to its first iteration; default: 0")
      ->type_name("SECONDS");
  app.add_option("--calibration", texts.calibration,
                 "what `laneway calibrate` measured here: times of the trace's models alone and "
                 "beside each other, between turns, of copies and of an offer")
      ->type_name("FILE");
  app.add_option("--seed", texts.seed, "of all chance; default: 1")->type_name("N");
}

}  // namespace

void declare(CLI::App& app, Texts& texts) {
  declare_jobs(app, texts);
  declare_device(app, texts);
  app.add_option("--json", texts.json, "write the results there as JSON")->type_name("FILE");
  app.add_option("--csv", texts.csv, "write a line for each job of each policy there")
      ->type_name("FILE");
  app.add_option("--timeline", texts.timeline, "write there what was in use over time, as CSV")
      ->type_name("FILE");
  app.add_option("--replay", texts.replay,
                 "instead of all else: repeat every decision of what `lanewayd --trace` recorded")
      ->type_name("FILE");
  app.set_version_flag("--version", std::string("laneway-simulate ") + version());
  app.footer(kFooter);
}

}  // namespace laneway::simulator
