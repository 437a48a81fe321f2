"""The limits of `laneway web`, each with its reason."""

STATUS_EVERY_S = 1.0  # a status costs the service a row of work for each job
SILENT_S = 5.0  # a service that says nothing for so long is shown as away
MINUTE = 61  # statuses of which the last minute is told: as many as have 60 s between them
HAPPENED = 500  # events that are kept, at most
HAPPENED_S = 300.0  # how long an event is kept

BODY_BYTES = 64 << 10  # of a request: the longest valid one, with a name of 255 bytes, has 2 KiB
BODY_S = 10.0  # in which a body must have come
HEAD_S = 10.0  # in which the head of a request must have come
HEAD_FIELD_BYTES = 4 << 10  # of Host, Origin, Authorization or Cookie; longer ones are refused
CONNECTIONS = 256  # at once; a further one gets 503
STREAMS = 64  # pages at once; a further one gets 503
SLOW_READER_S = 10.0  # a page that takes nothing for so long is dropped
BUFFER_BYTES = 64 << 10  # that wait for a slow reader before its time begins
ACTIONS = 8  # requests to the service at once; a further one gets 503
ACTION_S = 30.0  # what waits for an image or the pool waits so long, then it is refused
CONNECT_S = 1.0  # to find a service that has just started
STOP_S = 1  # in which open requests may end at SIGTERM

TOKEN_CHARACTERS = (16, 512)  # of a token file
