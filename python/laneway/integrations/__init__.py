"""Training loops of other libraries, with their iterations run by Laneway. Each module needs the
library that it is named after, and `import laneway` loads none of them."""
