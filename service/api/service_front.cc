#include "service/api/service_front.h"

namespace laneway::service {

Error no_such_command(const std::string& command, bool has_argument) {
  return Error{ErrorCode::invalid_argument, "command '" + command + "' with" +
                                                (has_argument ? "" : "out") +
                                                " an argument: there are \"kill\" JOB, \"release\" "
                                                "JOB, \"load\" JOB, \"unload\" JOB, \"pin\" JOB, "
                                                "\"unpin\" JOB, \"policy\" TEXT, \"pool\" SIZE, "
                                                "\"record\" FILE and \"shutdown\""};
}

}  // namespace laneway::service
