// Package bench measures Berth's figures, each side by side with its yardstick, in one run on one database, and prints them
// as ratios. Absolute times say more about the machine than about Berth.
package bench
