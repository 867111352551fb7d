#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int from = argc > 1 ? atoi(argv[1]) : 10;

    for (int i = from; i > 1; i--)
        printf("%d\n", i);
    printf("Liftoff!\n");
    return 0;
}
