/* Memory of a file for which there is no room.
 *
 * Ranks of a node exchange through files in /dev/shm, which MPI makes larger than what it takes at first.  Where that is small, as in
 * containers, or somebody fills it, the first touch of a page ends the process with the signal BUS, and nothing says why. */
#ifndef SHOAL_BASE_BUS_H
#define SHOAL_BASE_BUS_H
/** From now on such an end is told in one line, with the file, the room that is left and a cure, and has the exit code of an I/O error.
 *  A BUS that somebody sent ends the process as ever.  Call it before MPI, which leaves a handler that is there alone. */
void shoal_bus_hear(void);
#endif
