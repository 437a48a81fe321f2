"""The limits of `laneway serve`, each with its reason."""

CONNECTIONS = 1024  # at once; a further one gets 503
BODY_BYTES = 64 << 20  # of a request
BODIES_BYTES = 256 << 20  # of all requests that are being answered; a further one gets 429
READS = BODIES_BYTES // BODY_BYTES  # messages of gRPC, of untold length, that are read at once
STATUS_BYTES = 2048  # of a sentence in gRPC's status: a client takes 8 KiB, escaped, with the rest
BODY_S = 60.0  # in which a body must have come
HEAD_BYTES = 512 << 10  # an event loop reads 256 KiB at once, so a body's beginning counts too
IDLE_S = 75  # that a connection is kept without a request
STOP_S = 5  # in which open requests may end at SIGTERM

WAITERS = 8  # threads that wait for answers, whatever the number of requests
SLICE_NS = 20_000_000  # of a wait; after it, who has gone and who else waits is looked at
SHORT_SLICE_NS = 1_000_000  # the same while more requests wait than there are waiters
HEAD_KEPT_BYTES = 4096  # of a request's JSON head; a longer one is parsed each time
HEADS_KEPT = 64  # of them, of a model
AT_ONCE_NS = 500_000  # of a wait in the event loop itself; to a thread and back takes as long
AT_ONCE_CREDIT = 8  # quick iterations that make up for one that was waited for in vain
IN_FLIGHT = 2  # iterations of a model that the service has at once: one runs, one is next

QUEUE = 64  # requests of a model that wait, unless its model.toml says another bound
QUEUE_MOST = 4096
DEADLINE_MS = 300_000.0  # of a request, its model's loading included, unless model.toml says it
BATCH_MOST = 64  # rows; forms are 1, 2, 4, …, and a job holds 64 graphs
FORMS = 8  # shapes of a model that stay captured; the oldest is dropped

LOADS = 4  # models that are imported and captured at once: each takes a core, and its weights twice
LOAD_S = 120.0  # in which a model must be imported and captured, unless model.toml says it
LOAD_MOST_S = 3600.0
CONNECT_S = 1.0  # to find a service that has just started
LOOK_S = 5.0  # between two looks whether the service is there
RETRY_S = 1  # told to a caller who was sent away

TOML_BYTES = 64 << 10  # of model.toml
TENSORS = 64  # inputs, or outputs, of a model
DIMENSIONS = 8  # of a tensor
NAME_CHARACTERS = 128  # of a model, or a tensor
INPUTS_OF_A_LIST = 256  # texts or lists of tokens in one request for embeddings
