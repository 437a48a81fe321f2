// Formulas of operand_formulas.h: recurrent layers, whose biases torch reads only where they have
// some. Without, it passes zeros of the sizes of the weights in their places.
#include "adaptor/checks/operand_formulas.h"

namespace laneway::adaptor {

Status check_recurrent_layer(Operands& operands) {
  const bool none = operands.arguments().truth("has_biases") == false;
  return operands.match(none ? "weight2[4H I]:F! weight3[4H H]:F!"
                             : "weight2[4H]:F! weight3[4H]:F!");
}

Status check_recurrent_backward(Operands& operands) {
  const bool none = operands.arguments().truth("has_biases") == false;
  return operands.match(none ? "weight3[4H I]:F! weight4[4H H]:F!"
                             : "weight3[4H]:F! weight4[4H]:F!");
}

}  // namespace laneway::adaptor
