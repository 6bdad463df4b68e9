# ruff: noqa: E501 - the lines are sentences
"""Short plain stories, poems, scenes and dialogues from a seed, in the English of children's books.

A story is a plot (a list of beats, each with several wordings) told in a setting (places, people, things).
`{he}`, `{his}` and the like follow the hero, who may also be "I"; a slot with a capital gives a capital.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import NamedTuple

GIRLS = re.findall(
    r"\w+",
    "Mila Anna Nora Lucy Tessa Ida Rosa Clara Hana Zoe Elsa Maya Ruth Dora Lina Amira Wendy Greta Sana Olive Pia Marta Ivy Keiko Fatima Jana Bella Nadia Carmen Edith Lotte Priya",
)
BOYS = re.findall(
    r"\w+",
    "Tom Leo Emil Oskar Ben Noah Jonas Karim Felix Peter Milo Hugo Anton Sami Finn David Ravi Theo Arthur Bruno Kofi Nils Pavel Simon Luis Walter Yusuf Edgar Ned Mateo Otis Casper",
)
HEADS = re.findall(
    r"\w+",
    "Brel Oster Han Merr Tolm Win Fal Lark Ash Pell Green Stone Wil Dun Cor Thist Bram Yar Hol Mar",
)
TAILS = re.findall(
    r"\w+", "low wick ford by den ton field brook stead haven mere moor gate combe dale"
)

# Setting: slot = choices
SETTINGS_TEXT = """
# village
place = the village of {town}; a small village called {town}; the green valley of {town}; the hill town of {town}; a farm outside {town}
kind = farmer's {child}; young baker; quiet shepherd; school{child}; miller; gardener; postman; young carpenter; cheese maker; beekeeper
fkind = retired teacher; blacksmith; tall shepherd; weaver; clock mender; neighbour; travelling tinker; village doctor; potter
spot = the old mill; the stone bridge; the church wall; the apple orchard; the well; the empty barn; the edge of the wood; the market square; the duck pond; the school gate
thing = brass lantern; wooden flute; silver button; red scarf; tin whistle; copper key; blue cup; pocket watch; straw hat; little drum
animal = brown dog; grey goat; black hen; white cat; shy fox; young donkey; lame crow; red squirrel
weather = rain fell softly on the roofs; the wind shook the apple trees; mist lay over the fields; the sun warmed the stones of the lane; snow covered every fence; swallows flew low over the hay
# city
place = the city of {town}; a crowded street in {town}; a tall grey house in {town}; the old quarter of {town}; a busy corner of {town}
kind = bus driver; young nurse; taxi driver; street musician; librarian; student; cook; bicycle messenger; night guard; {child} from the third floor
fkind = shoe mender; flower seller; window cleaner; piano teacher; newspaper seller; painter; waiter; baker from the corner shop; museum guide
spot = the railway station; the corner shop; the public library; the park gates; the bus stop; the roof garden; the back stairs; the fountain; the closed cinema; the bridge over the canal
thing = green umbrella; leather notebook; yellow suitcase; glass marble; concert ticket; silver ring; small radio; paper map; violin; photograph
animal = striped cat; small dog; tired pigeon; green parrot; spotted puppy; white mouse
weather = rain ran down the windows; the street lamps shone on the wet road; a cold wind blew between the houses; the evening sun turned the glass to gold; fog hid the tops of the towers; the trams rang their bells in the heat
# sea
place = the harbour of {town}; the island of {town}; a fishing town called {town}; the lighthouse at {town}; the rocky coast near {town}
kind = fisher {child}; young sailor; lighthouse keeper; boat builder; net maker; ferry captain; ship's cook; pearl diver
fkind = old sailor; harbour master; sail maker; fish seller; map maker; retired captain; rope maker; island doctor
spot = the stone pier; the lighthouse steps; the boat shed; the far beach; the sea cave; the fish market; the wooden jetty; the cliff path; the harbour wall; the wrecked ship
thing = ship's bell; bone comb; green bottle; brass compass; painted oar; coral ring; small telescope; oilskin bag; sea shell; wooden whistle
animal = grey seal; wet dog; lame gull; ginger cat; young dolphin; old turtle
weather = the waves beat against the rocks; gulls cried above the masts; the tide crept up the sand; a salt wind pulled at every rope; the sea lay flat like glass; dark clouds gathered over the water
# space
place = the space station {town}; a small moon named {town}; the starship {town}; the dusty planet {town}; a dome city on the planet {town}
kind = young pilot; ship's engineer; plant keeper; star map maker; robot mechanic; space cook; radio operator; cargo captain; {child} born between the stars
fkind = quiet robot; ship's doctor; old navigator; three-armed trader; mining captain; machine teacher; star scientist; visitor from another world
spot = the engine room; the glass dome; the landing field; the air lock; the cargo hall; the control deck; the water tanks; the long grey corridor; the plant room; the crater wall
thing = signal lamp; memory crystal; star chart; silver wrench; small battery; glass seed; radio chip; spare helmet; metal flower; oxygen key
animal = six-legged cat; floating jellyfish; tiny moon lizard; cleaning robot; furry space mouse; blue desert bird
weather = the engines hummed under the floor; two suns rose over the red hills; stars drifted past the windows; a dust storm scratched at the walls; a blue planet turned slowly below; the warning lights blinked in the dark
# fantasy
place = the kingdom of {town}; the castle of {town}; the forest of {town}; a crooked tower in {town}; the land of {town}
kind = wizard's pupil; young knight; kitchen {child} of the castle; dragon keeper; {prince}; candle maker; potion seller; apprentice magician; stable {child}
fkind = forgetful wizard; good-natured giant; old healer; bridge troll; wandering knight; talking tree; river spirit; dwarf from the deep mines; fairy
spot = the crystal cave; the dragon's bridge; the castle kitchen; the whispering wood; the highest tower; the frozen lake; the garden of statues; the hidden stair; the wishing well; the gate of thorns
thing = silver wand; golden feather; crystal ball; book of spells; glass slipper; enchanted mirror; dragon scale; magic ring; iron crown; bag of moon dust
animal = small dragon; talking raven; white unicorn; silver wolf; sleepy griffin; golden hare
weather = purple clouds sailed over the towers; the moon hung low above the castle; fireflies danced between the trees; an icy wind came down from the mountains; petals drifted through the air; thunder rolled behind the hills
"""

# Plot: # name @settings it needs | what happens; then two acts: alone, and with a friend.
# The beats of an act are divided by ||, the wordings of a beat by |.
PLOTS_TEXT = """
# lost | loses a {thing} and searches for it
- One {time}, the {thing} was gone. | It was {time} when {hero} noticed that {his} {thing} was missing. | Then {he} reached into {his} bag for the {thing} and found nothing but crumbs. | But when {he} came home, the hook where the {thing} always hung was empty. || It had belonged to {his} grandfather, so {he} could not simply buy another. | {He} turned out every drawer, looked under the bed and even shook {his} boots. | "It must be somewhere," {he} told {self}, but {his} voice was small. | Without it, {he} felt like a bird with one wing. | "Has anyone seen my {thing}?" {he} called, but nobody had. || {He} searched near {spot} until {his} hands were cold. | First {he} tried {spot}, then {spot}, and found only leaves and dust. | {He} walked the whole way back, step by step, with {his} eyes on the ground. | {He} asked everyone at {spot}, and they all pointed in different directions. | A child swore that it was lying under {spot}, but there was only an old shoe.
- {MEET} || "When did you last see it?" {friend} asked, and that simple question helped more than all the running. | "Lost things like to be looked for slowly," {friend} said. | {Friend} did not laugh. "Let us begin where you were happy with it," {fhe} said. || Just then a {animal} ran by with something shiny, and {they} followed it to {spot}. | At last {they} heard a small noise behind {spot}, where a {animal} had made its nest. | A {animal} sat beside {spot} as if it were guarding a treasure. | Then {friend} pointed at a {animal} that was digging beside {spot}. | Following the tracks of a {animal}, {they} came to a hollow full of spoons, buttons and keys. || There lay the {thing}, dirty but whole. | And there, between two stones, was the missing {thing}. | "Thief!" {he} cried, but {he} was laughing, because the {thing} was safe. | Under a heap of feathers something gleamed: it was the {thing}. | The {thing} had a new scratch, and {hero} liked it even better for that.
# storm | must get through a terrible storm
- By noon the sky had turned black. | The storm arrived without any warning. | "Something big is coming," people said, and they closed their doors. | First came the silence, and then came the storm. || All the lights went out, one after the other. | Something broke with a crash near {spot}. | The noise was so loud that nobody could sleep. | Even the bravest people stayed close to the walls. | A barrel rolled through the street like a drum. | The children counted between the flashes and never got past two. || Then {hero} remembered the {animal} that lived beside {spot}. It would be all alone. | A thin cry came from {spot}, and {hero} knew it was the {animal}. | Somebody had left a {animal} outside, and {he} could hear it call. || {He} was afraid, but {he} tied a rope around {his} waist and went out. | "I will be quick," {he} promised, and {he} ran into the dark with a {thing} in {his} hand. | {He} counted {his} steps so that {he} would find the way back: ten, twenty, fifty.
- A second lamp came swaying towards {him}. It was {friend}, the {fkind}. | Out of the dark stepped {friend}, a {fkind} with {look}. | Suddenly somebody took {him} by the arm. It was a {fkind} named {friend}. || "Hold on to me!" {friend} shouted, and together {they} pulled the frightened animal free. | Side by side {they} crept forward, and {friend} carried the animal under {fhis} coat. | It took both of {them} to lift the broken beam, but the animal was alive. || In the morning the air was clean and everything shone. | When the storm grew tired at last, {they} were drinking hot soup. | The next day there was a lot to mend, and everybody helped. | By dawn only the puddles were left, and every puddle had a piece of sky in it. | The {animal} shook itself, sneezed and ate a whole dish of porridge.
# stranger | meets a stranger with a secret
- Nobody knew where the stranger came from. | One {time}, a stranger knocked three times. | The stranger wore a long coat and carried a {thing}. | A stranger stood near {spot} and looked at the houses as if counting them. | It was the stranger's laugh that people noticed first, for it sounded like a rusty gate. || "Do not speak to people you do not know," the neighbours warned, and shut their curtains. | Some said the visitor was a thief; others said much worse. | The dogs barked, and mothers called their children inside. | An old man said that strangers bring bad luck, but he said that about cats as well. || But {hero} saw that the visitor was only tired and hungry. | {Hero} brought bread and a bowl of soup, because nobody should be cold and hungry. | {He} thought about it for a while, and then {he} opened the door. | "You must be cold," {hero} said and moved a chair closer to the stove.
- {MEET} || "I was born here," {friend} said. "I left sixty years ago, and nobody remembers me." | It was {friend} who explained the riddle: the stranger had once built {spot} with {fhis} own father. | "Look closely at the {thing}," {friend} whispered. "There is a name on it, and the name is ours." || Slowly the others came nearer to listen. | After that evening, people stopped whispering and began to ask questions. | One neighbour brought a chair, another brought tea, and soon the room was full. || The stranger stayed until spring and taught the children many songs. | When the visitor left, the whole street came to wave. | From then on there was always an extra plate on the table. | On the last day the stranger left a {thing} on the doorstep, with a note that said only "Thank you."
# promise | keeps a difficult promise
- "Bring this {thing} to {spot} before dark," the sick woman had begged, and {he} had promised. | Before {his} aunt went away, she had made {him} promise one thing: to look after the {animal}. | "I will bring you a {thing} before the first snow," {he} had told {his} old aunt. It had been easy to make the promise. || For a week everything went well, and then came the {adj} day of the fair. | {His} friends called from the road: "Come with us! Nobody will know." | There was music in the distance, and it pulled at {his} feet. | Then somebody offered {him} a seat on the last boat to the fair, quite free. | It would have been so easy to forget all about it. || {He} went a few steps, stopped, and turned around. | "I gave my word," {he} said, although it was hard to say. | For a long minute {he} stood still and listened to {his} own heart. | "Not today," {hero} answered and closed the window.
- {MEET} || "A promise is a kind of bridge," {friend} told {him}. "You have to build it to the other side." | {Friend} nodded. "Then we shall do it together, and it will take half the time." | "You look like somebody who carries something heavy," {friend} said with a smile. || {They} worked until the moon rose. | {They} passed {spot} in the last light, talking all the way. | It rained, {they} got lost twice, and still {they} did not turn back. | With four hands the work went quickly. | {Friend} carried the lamp, and {hero} carried everything else. || "You kept your word," was all she said, but her eyes shone. | When everything was done, {he} felt lighter than {he} had all week. | Nobody clapped and nobody cheered, yet {hero} had never been so proud. | The {animal} was fat and cheerful, and there was not a single thing to complain about.
# craft | wants to learn a difficult craft
- More than anything, {hero} wanted to learn how to make a {thing}. | {Hero} had seen a perfect {thing} in a shop window and wanted to make one just like it. | "I will make a {thing} with my own hands," {he} announced at breakfast. || {His} first try fell apart at once. | The first one looked more like a potato. | {He} worked for nine days, and on the tenth the whole thing broke in two. | The second was worse than the first, and the third one caught fire. || "Give up," said {his} cousin, who had never made anything. | People smiled in that polite way which is worse than laughing. | {He} kicked the pieces under the table and went for a walk past {spot}. | "Perhaps I have the wrong hands for it," {hero} thought.
- {MEET} || "Show me your hands," {friend} said. "Good. They are dirty. You have been trying." | {Friend} took up an old knife and worked slowly, so that {he} could see every move. | "The secret is no secret," {friend} explained. "You make a hundred bad ones first." || So {he} began again: measure, cut, look, and wait. | All winter {he} practised, a little every evening. | {He} learned to stop when {he} was angry and to start again when {he} was calm. | Day after day the floor was covered with chips and dust. || In the end it stood on the table, small and not quite straight, and it was right. | The twentieth one was good enough to give away. | When spring came, a child pressed her nose to the window and asked, "Can you teach me, too?" | {Friend} turned it over and over, found nothing to say, and nodded. That was the highest praise.
# door | finds a secret door
- Behind {spot} there was a door that had not been there the day before. | While {he} was cleaning, {hero} moved a heavy shelf and saw a small door. | One {time}, {hero} followed a {animal} and came to a door no higher than {his} knee. || It had no handle, only a tiny hole in the shape of a star. | A line of light shone under it, although it was night. | Somebody had painted a {thing} on the wood, very carefully. | {He} knocked, and something knocked back. | There were letters over it, but they were written backwards. | It was warm to the touch, like the side of a cow. || {He} pushed, pulled and even said please. | For three days {he} tried every key {he} could find. | {He} lay on the floor and looked through the crack, but {he} saw only blue. | {He} tried a hairpin, a spoon and a very long speech.
- {MEET} || "Doors like that open for people who are not in a hurry," said {friend}. | {Friend} gave {him} a {thing}. "I found this when I was your age, and I never knew what it opened." | "I have waited all my life for somebody to ask me about that door," {friend} said. || Click! The door swung open without a sound. | This time it opened as easily as a book. | There was a long sigh of air, and then {they} could step inside. | The lock gave a little cough and let go. || Behind it lay a {adj} garden under a glass roof, full of birds. | The room held shelves of old toys, each with the name of a child on it. | {They} found a round room with a window to every season: snow, blossom, sun and falling leaves. | There was only a chair and a window, but from the window one could see the whole world. | Inside sat a {animal} in front of a small stove, as if it had been expecting guests.
# race | takes part in a great race
- Every year there was a race from {spot} to {spot}. | The prize of the race was a {thing}, and everybody wanted to win it. | {Hero} had come last in the great race three times, and people had begun to joke about it. || "Why do you even try?" asked the fastest runner. | {He} had trained before sunrise, while the others were asleep. | {His} shoes were old, but {he} had mended them well. | Most of the others were taller, older and sure of themselves. || Bang! They were off. | At the signal everybody jumped forward at once. | The start was wild, all elbows and dust. | A whistle blew, and the crowd began to shout. || Halfway along, somebody fell and did not get up. | By the second turn {hero} was third, when {he} heard a cry from {spot}. | Near {spot} {he} saw that one of the others was holding a hurt foot.
- It was {friend}, the {fkind}, who had been the favourite. | On the ground sat {friend}, a {fkind} with {look}. | The one who had fallen was a {fkind} by the name of {friend}. || "Go on, you can still win," {friend} said, pale with pain. | "I cannot walk," {friend} admitted. "Leave me here." | {Friend} shook {fhis} head. "It is broken, I think. Run, or you will be late." || {Hero} looked at the road, and then {he} bent down. "Climb on my back." | But winning did not seem so important any more, so {he} stayed. | Instead, {he} took {friend} by the arm and {they} went on slowly, one step and then the next. | A prize is only a thing, {he} thought, and knelt down to tie a bandage. || {They} came in last, and the cheering was louder than it had been for the winner. | The judge cut the ribbon in two and gave each of {them} a half. | It was dark when {they} crossed the line, and the whole crowd was still waiting. | Nobody remembers who won that year, but everybody remembers who came last.
# letter | finds an old letter
- Inside a {thing} from the market, {hero} found a letter that had never been sent. | A letter fell out of an old coat, yellow and thin as a leaf. | On the floor of the attic lay an envelope with no stamp. || "Meet me at {spot} when the first snow falls," it said, and there was no name. | The ink had faded, but {he} could still read the last line: "I will always be sorry." | It was dated forty years ago, and half of the address was washed away. | There was a pressed flower inside, and it still had a little colour. || {He} asked at {spot}, but people only shook their heads. | {Hero} read it so often that {he} soon knew it by heart. | It was not {his} letter, and still it felt as if it had been waiting for {him}. | Who had written it, and why had it never been sent?
- {MEET} || When {friend} saw the handwriting, {fhe} had to sit down. "That is my brother's hand," {fhe} said. | "I know who wrote this," said {friend} after a long silence. | {Friend} read it twice, took off {fhis} glasses and wiped them. "So he did write, after all." || {They} talked until the lamp burned low. | That same night {they} wrote an answer, ten pages long. | The very next day the two of {them} set out together with sandwiches and a map. || Two old people stood face to face and laughed and cried at once. | A week later a reply came. It began with the words: "I never stopped hoping." | The old house opened its door, and somebody said, "You are late. Come in." | Forty years is a long time, but it is not too long. | At the bottom of the answer there was a drawing of two children under a tree.
# stray | takes care of a stray animal
- It was thin, wet and dirty, and it was the saddest {animal} {he} had ever seen. | A {animal} had followed {him} all the way from {spot}. | Something moved under the steps: two round eyes, and behind them a {animal}. || "You cannot stay," {hero} said, but {he} was already looking for a blanket. | {He} put down a dish and stepped back, so as not to frighten it. | "Only for one night," {his} mother said, and everyone knew what that meant. | {He} made a bed from a wooden box and an old jacket. || It would not eat, and it hid whenever somebody spoke too loudly. | In the second week it bit the neighbour, stole a sausage and slept in the bread basket. | For days it watched the door as though it were waiting for someone. | At night it cried so softly that only {hero} could hear it.
- {MEET} || "Do not chase it," {friend} advised. "Sit down, read a book, and let it come to you." | {Friend} knelt and showed {him} the thorn in its foot. | "It has lost somebody," {friend} said gently. "Give it time." || {Hero} sat on the floor every evening and read aloud, mostly about {about}. | Little by little it came closer, first one step and then two. | {He} moved slowly, spoke softly and never forgot to bring something good to eat. | One day it took a crust from {his} hand and did not run away. || One night {he} woke up because there was something warm on {his} feet. | When a thief tried the window that autumn, it was the little guest that woke the house. | It laid its head on {his} knee and closed its eyes, and that was that. | Nobody ever came to ask for it, and {hero} was secretly glad.
# dark | brings light back to a dark place
- One {time}, every light went out and would not come back. | The great lamp had failed, and now there was only darkness from {spot} to {spot}. | It had been dark for eleven days. || Children cried, milk was spilled and people bumped into each other. | At first it was funny, then it was strange, and then it was sad. | The oldest people said that it had happened once before, and they would not say how it had ended. | People put bells on their shoes so as not to walk into each other. || {Hero} could not bear it any longer, so {he} took a {thing} and set out. | "Somebody has to go and see," {he} said, and because nobody else stood up, {he} went. | {He} found {his} way by touching the walls and listening to the echoes. | {Hero} tied a long thread to the door and walked away from it, step by step.
- {MEET} || "The light is not broken," {friend} explained. "It only forgot what it was for." | {Friend} opened {fhis} hand, and there was one single spark in it. "It is all I have. Take good care of it." | "I put it out myself," {friend} confessed. "Nobody ever said thank you." || All the way back {he} protected the tiny flame with {his} body. | {He} blew on it gently, and it grew. | A {animal} led {them} home, because animals do not need lamps. || One window shone, then the next, until the whole place glittered. | When it was bright again, people saw how dirty everything was, laughed, and began to clean. | Now they hold a feast every year, and each child carries a lantern. | It was so bright that the cocks began to crow, although it was only midnight.
# lastday | spends a last day before everything changes
- It was the last day, and everything had to be packed into boxes. | Tomorrow the family would leave for good. | Only one day was left before {spot} would be closed for ever. || {Hero} made a list of all the things {he} wanted to see once more. | {He} got up before the sun and went from place to place to say goodbye. | "I will not cry," {he} decided, and that lasted until breakfast. | There were a hundred things to do, and {hero} did none of them. || First {he} went to {spot} and stood there for a while. | At {spot} {he} scratched {his} name into a stone, very small. | {He} gave away {his} {thing} to the child next door, who did not know what to say. | {He} drank one last cup of water from the tap and found that it tasted of iron, as always.
- {MEET} || "I hate goodbyes," said {friend}, "so let us call it something else." | {Friend} had baked a cake, and it was a little burnt on one side. | "When I left my home," {friend} remembered, "I took a jar of earth with me. I still have it." || {They} sat side by side and did not talk much. | {They} ate with {their} fingers and told the old jokes one more time. | Above {them} the first star appeared, and neither of {them} wanted to get up. | {Friend} hummed something, and {hero} hummed along. || In {his} new room {he} put a small jar by the window. | Years later {he} would forget many things about that house, but not that evening. | Leaving was hard, and yet the road looked {adj} in the morning light.
# robot @city,space | finds a machine that wants to learn something
- In a heap of scrap near {spot}, {hero} found a machine that could still say one word: "Why?" | The robot had been built to count boxes, but it wanted to paint. | The machine was old, square and {adj}, and it hummed when it was happy. || "What is a joke?" it asked one {time}. | It asked about everything: rain, sleep, mothers, and the colour of bread. | "I would like to know what it is like to be tired," it said politely. | It collected things: a leaf, a bottle cap, the sound of rain. || The owner wanted to sell it for parts. | "A machine with questions is a broken machine," the inspector said and wrote something down. | Then came the order to switch it off by Friday. | Two men came with a van and a long form to fill in.
- {MEET} || "We could hide it," {friend} whispered, "or we could let it speak for itself." | {Friend} listened to the robot for an hour and then said, "I have met people who think less." | "Give it a brush," {friend} suggested. || So the robot painted all night, and in the morning there was a picture on the wall of {spot}. | When the inspector came, the robot asked him, "Are you lonely?" Nobody had asked him that for years. | It told the judges a joke. It was a terrible joke, and they laughed until they had to hold their sides. || The inspector tore up his paper. | Today it teaches small children, because nobody else has so much patience. | The order was forgotten, and the old machine got a place by the window. | "Why?" the machine asked, when they told it that it could stay, and everybody laughed.
# case @village,city,sea | plays the detective and solves a small case
- Somebody had stolen the {thing}, and it was up to {him} to find out who. | The case began on a {time} with an empty shelf and a muddy footprint. | Three people had been near {spot} that night, and one of them was lying. || {Hero} took out {his} notebook and wrote down the facts. | There was no broken glass, no open window and no sign of a fight. | {He} found two clues: a torn thread and the smell of onions. | {Hero} measured the footprint: it was small, and the left heel was worn. || The cook said she had been asleep. | "I saw nothing," the gardener said, much too quickly. | The first suspect had a good reason, and the second had wet shoes. | Everyone had seen something, but no two stories were the same.
- {MEET} || "Did you notice the dust?" {friend} asked. "There is none on the top shelf." | It was {friend} who pointed out that the clock had stopped at ten past two. | "People look down when they search," {friend} remarked. "Try looking up." || Suddenly all the pieces fell into place. | {He} asked everyone to come into the same room and closed the door. | {Hero} drew a plan of the house, and there it was, as plain as day. | "The thief is still here," {he} said calmly, "and the thief has four legs." || A {animal} had carried the {thing} off to its bed, for it liked to sleep on it. | The gardener blushed. He had only borrowed the {thing}, to have it mended as a surprise. | The {thing} was behind {spot} all along, where a draught had blown the curtain over it.
# journey | travels far away to find something
- The map showed a place that nobody had ever come back from. | So {hero} packed bread, a {thing} and a clean shirt, and left before dawn. | "How far is it?" people asked. {Hero} did not know, and {he} liked not knowing. || On the first day everything was new. | The road was longer than any road in {his} dreams. | {He} slept where {he} could, once even inside {spot}. | A cart took {him} as far as {spot}, and from there {he} went on foot. || By the end of the week {his} food was gone. | On the ninth day {he} lost the way and had to admit it. | It grew cold, and {he} thought of {his} own bed. | Twice {hero} turned back, and twice {he} changed {his} mind.
- {MEET} || "Everybody who comes by here asks for the way," said {friend}. "You are the first to ask how I am." | {Friend} shared {fhis} supper with {him} and drew a line in the sand. "Go there, and do not turn left." | "What you are looking for is small," {friend} warned {him}. "Most people step over it." || A {animal} walked ahead of {him} for the rest of the day. | From the top of the last hill {he} could see everything at once. | Beyond {spot} the air was warm and smelled of honey. || It was not gold at all but a clear spring, and {he} drank until {he} laughed. | {He} found a {adj} little house with {his} own name on the door. | In the end {he} brought home a handful of seeds, and by summer they were taller than the roof. | What {he} had been looking for was already in {his} pocket, and had been from the start.
# mistake | makes a mistake and puts it right
- It happened in a second: {he} turned too fast, and the {thing} lay in pieces. | {Hero} had only wanted to help, but now the {thing} was ruined. | "I did not touch the {thing}," {hero} said. But it lay broken on the floor, and {he} was the only one there. || Nobody had seen it happen except a {animal}. | {He} hid the pieces and told {self} that it did not matter. | The wrong person was blamed for it, and that made everything worse. | For a whole day {he} said nothing at all. || That night {he} could not sleep. | At dinner the food tasted like paper. | Every time somebody looked at {him}, {he} felt {his} ears grow hot. | The longer {he} waited, the heavier it became.
- {MEET} || "I once burned down a kitchen," {friend} said, "and the telling was worse than the fire. But afterwards I could breathe again." | {Friend} asked no questions. {Fhe} only moved over, so that there was room on the bench. | "You do not have to be perfect," {friend} told {him}. "You only have to be honest." || "It was me," {he} said the next day, in front of everyone. | So {he} took a deep breath, knocked at the door and told the truth. | {He} spent the whole weekend with glue, string and a lot of patience. | "I broke it, and I am sorry," {he} said, and the words came out all at once. || It never looked the same again, but everyone liked it better. | There was a long silence, and then a hand on {his} shoulder. | The owner looked at the {thing}, then at {him}, and began to laugh. | "Thank you for telling me," said the owner. "Now hand me that brush, and we will mend it."
# dragon @fantasy | has to face a dragon
- A dragon had moved in beside {spot}, and the king offered a {thing} to anyone who could drive it away. | Smoke rose from {spot}, and everybody knew what it meant: the dragon was awake. | The dragon came every {time} and took nothing but pillows. || Twelve knights had gone up the hill, and twelve had run down again. | {Hero} had no sword, only a wooden spoon and a good heart. | The king had promised half of his land, but {hero} only wanted a quiet night. | "I shall talk to it," {hero} said, and the court laughed. || The path was steep and the stones were warm. | {He} whistled a little, so that the creature would not be surprised. | Bones lay at the entrance, but they were only chicken bones. | Hot air came out of the cave, in and out, in and out.
- {MEET} || "It has a toothache," {friend} said. "I have been trying to tell them for weeks." | {Friend} knew the old language of dragons and wrote three words on {his} hand. | "Dragons are shy," said {friend}. "Ask it about its childhood." || "Good evening," {he} said, and the huge head came down until {he} could see {self} in its eye. | The dragon sniffed, blinked and began to cry tears as large as buckets. | {He} tied one end of a rope to the bad tooth, shut {his} eyes and pulled. | {He} told it a story, and after the second chapter it put its chin on the ground to listen. || That is why there is a dragon on the roof of the bakery today, keeping the ovens hot. | It thanked {him} politely and flew three times around the tower. | From that day on the children rode to school on its back. | The king was a little disappointed, but the queen asked the dragon to tea.
# signal @space | receives a strange signal from the stars
- One {time}, the radio began to speak in a voice that nobody knew. | For years there had been only silence, and then came the signal: three long notes and a short one. | "We are not alone," {hero} said aloud, and the words hung in the air. || The captain thought that it was only noise. | It came from a place where there should have been nothing at all. | {He} played it backwards, then slowly, then through a {thing}. | Every night it came again, a little weaker than before. || The fuel was low, and every hour counted. | {Hero} had to choose: fly home or fly towards the sound. | {They} changed course without asking anyone. | There was no map of that part of the sky.
- {MEET} || "That is not a message," {friend} said. "It is a lullaby." | {Friend} turned a dial and the notes became a picture: a tiny ship, broken and alone. | "I have heard that tune before," {friend} said, "on the day I was switched on." || {They} found a small round ship, and inside it slept a {animal}. | Behind {spot} a hatch opened, and something {adj} floated out. | With gloves that shook, {he} answered the call by singing the same four notes. || The song is still played every evening before the lamps go down. | Nobody ever learned who had sent it, but somebody out there sang back. | The little ship was mended, and it blinked twice before it flew away. | When {they} landed at last, there were more passengers on board than when {they} had left.
"""

OPEN = """In {place} lived a {kind} named {name}, who had always wanted to know more about {about}. | Once upon a time there was a {kind} called {name}. {He} lived in {place}, and {he} talked about {about} from morning till night. | {name} was a {kind} from {place}. Every {time}, {he} dreamed about {about}. | Nobody in {place} knew as much about {about} as {name} did. {He} was only a {kind}, but {he} listened well. | {Weather} when {name} first heard about {about}. {He} was a {kind} in {place} then, and {he} was easily bored. | "Tell me about {about}," {name} said every {time}. {He} was a {kind}, and in {place} there was not much else to do. | There was a book about {about} in the window of the only shop, and {name} stopped to look at it. {He} worked as a {kind} in {place}. | Long ago, in {place}, people still told each other tales about {about}. The one who loved them most was a {kind} by the name of {name}. | {name} could not stop thinking about {about}. It is not an easy thing for a {kind}, least of all in {place}. | If you had asked anyone in {place} about {about}, they would have sent you to {name}. {He} was a {trait} {kind} with {look}. | It all began in {place}, with a few words about {about}. {name}, a {kind}, heard them by chance and could not forget them. | On the wall of a room in {place} hung a picture that had something to do with {about}. {name}, a {trait} {kind}, looked at it every day. | "Have you heard about {about}?" somebody asked {name} one {time}. {name} was a {kind} in {place} and heard nearly everything. | There once was a {kind} who wanted to write a book about {about}. The name was {name}, and the place was {place}. | {name} had two great wishes: to see the world beyond {place}, and to find out everything about {about}. | Most people in {place} did not care about {about}. {name} did, although {he} was only a {kind}. | The radio was talking about {about} when {name} came in. It was late, and {he} had worked as a {kind} in {place} since dawn. | This is a tale from {place}. It is about {about}, about a {kind} named {name}, and about a friend."""
OPEN_I = """I was a {kind} in {place} when I first heard about {about}. | My name is {name}, and this is what happened to me in {place}. It has to do with {about}, more or less. | I still remember the {time} when somebody told me about {about}. I lived in {place} then and worked as a {kind}. | {Weather} on the day I began to think about {about}. I was a {kind}, I lived in {place}, and I believed that nothing would ever happen to me. | When I was young, my family lived in {place}. We had no money, but we had a book about {about}, and I read it again and again. | People often ask me about {about}. I always tell them the same story, the one from {place}. | I had never cared much about {about} before I came to {place}. That changed on a {adj} day. | My mother used to sing a song about {about}. We lived in {place}, and I was a {trait} {kind} with big plans. | I wanted to write about {about}, but something happened in {place} that I must tell first. | If you want to understand why I care about {about}, you have to come with me to {place}."""
AFTER = """It was on that day that {name}, a {kind} in {place}, first heard about {about}. | These words stood on the first page of a book about {about}. {name} read them twice and looked up. {He} was a {kind} in {place}. | Nobody in {place} would ever forget it, least of all {name}, a {kind} who until then had thought only about {about}. | So began the {adj} days in {place}. {name}, a {kind}, had been busy with questions about {about} and was not ready for it. | At least this is how {name} told it later, when someone asked about {about}. {He} was a {kind} in {place}, and {he} never lied. | It was strange, even for {place}, where there were many rumours about {about}. For {name}, the {kind}, it changed everything. | Until that moment, {name} had been thinking about {about}, as every {kind} in {place} did. | {name}, who was a {kind} in {place}, closed the book about {about} and listened. | "What has that to do with {about}?" people in {place} asked afterwards. {name}, a {kind}, knew the answer. | In {place}, where everyone talked about {about} that year, only one person noticed it: a {trait} {kind} named {name}."""
AFTER_I = """At least that is how I remember it. I was a {kind} in {place} and spent my days thinking about {about}. | I wrote these words in my notebook in {place}, under a page about {about}. | It may sound strange, but in {place} there were many stories about {about}, and nobody was surprised. | That is the part I never tell when people ask me about {about}. I was living in {place} then, and I was {feel}. | Before that, I was only a {kind} in {place} with a head full of questions about {about}. | "Is it true?" people ask. It is as true as everything else I know about {about}, and I was there, in {place}."""
MEET = """Near {spot} {he} met {friend}, a {fkind} with {look}. | Then {he} heard a cough behind {him}. It was {friend}, the {fkind}. | Luckily {friend} came along, a {fkind} whom everybody trusted. | On the steps by {spot} sat a {fkind} with {look}. "My name is {friend}," {fhe} said. | "Are you all right?" asked a {fkind} who was called {friend}. | Somebody was already there: {friend}, a {trait} {fkind} with {look}. | The only one who stopped was {friend}, a {fkind} of few words. | A {fkind} named {friend} was sitting there, peeling an orange. | Not far from {spot}, a {fkind} was humming a tune. {Friend} was {fhis} name. | Suddenly the door opened and in came {friend}, a {trait} {fkind}. | It was there that {friend}, a {fkind} with {look}, found {him}. | "Can I help you?" a voice asked. It belonged to {friend}, who was a {fkind}. | So {he} went to see {friend}, a {trait} {fkind} who lived behind {spot}. | In the end it was {friend}, a {fkind} with {look}, who asked what was wrong. | {Hero} nearly fell over {friend}, a {fkind} who was resting in the shade."""
MOOD = """{Weather}. | Outside, {weather}. | {Hero} felt {feel} and a little {feel}. | It was so quiet that {hero} could hear {his} own breath. | {Weather}, and somewhere a clock struck seven. | {Hero} had never been so {feel} in {his} life. | The air smelled of {smell} and {smell}. | {Hero} looked around: nothing moved. | Time went by slowly, as it does when one is {feel}. | {Hero} whistled, because {he} was {feel} and did not want to show it. | "One thing at a time," {his} grandmother used to say, and {he} tried to remember it. | {Hero} ate half a sandwich, because it is hard to be {feel} with a full mouth. | "Think, {name}, think," {he} muttered. | {His} hands smelled of {smell}, and {his} head was full of questions. | There was nobody to ask but a {animal}, and it did not answer."""
BOND = """
"You remind me of somebody who knew all about {about}," {friend} added. | "Are you never afraid?" {he} asked. "Every day," {friend} said cheerfully. | {They} shared an apple and a piece of cheese. | {Hero} looked at {friend} and began to hope. | It was good not to be alone any more. | "Why are you helping me?" {he} asked. "Because somebody once helped me," {friend} replied. | {Friend} spoke slowly, like someone who has all the time in the world. | For the first time that day, {hero} smiled. | {He} wondered why nobody had told {him} that before. | "Do you really think so?" {he} asked. {Friend} only winked. | {Hero} thought about these words for a long while. | That sounded easy, but was it? {Hero} decided to find out. | "I never looked at it that way," {he} admitted.
"""
TURN = """It took longer than either of {them} had thought. | {They} held {their} breath. | "Look!" {friend} called. | {Hero} hardly dared to look. | For a moment nothing happened. | "Slowly," {friend} warned. "Slowly." | {His} heart beat like a drum. | "Now I see," {hero} whispered. | {Friend} squeezed {his} hand. | Somewhere a bell rang."""
AGAIN = """
"And what about {about}?" {friend} asked. "That," {hero} said, "is a story for another day." | After that, {hero} never thought about {about} in quite the same way. | For years {hero} would remember that day whenever the talk turned to {about}. | Later {they} sat together and talked about {about} until it was late. | {Friend} wrote a song about {about}, and {hero} learned to play it. | Whenever someone spoke about {about} after that, {hero} only smiled and looked at {friend}. | "You know more about {about} than you think," {friend} said when {they} parted. | Now {hero} understood what all the talk about {about} had meant. | {Hero} opened a new notebook and wrote on the first page: "About {about}." | That evening {they} told the others about it, and not a word was said about {about}. | It was, in its own way, a lesson about {about}. | "I used to think that I knew all about {about}," {friend} said. "Now I am not so sure." | The talk turned back to {about}, as it always did. | If you ask {friend} about {about}, you will hear the same story with a few more jokes. | Of course {hero} went on asking questions about {about}, only now {he} knew whom to ask.
"""
END = """And that was the best day of all. | {Hero} slept well that night. | "Same time tomorrow?" {friend} asked. "Same time tomorrow," {hero} answered. | Much was different afterwards, and that was good. | Then {hero} put on the kettle and set out two cups. | Not everything was well, but enough was. | People in those parts still tell the tale, and each time it grows a little longer. | {Hero} went home slowly, {glad} and {glad}. | Some things cannot be explained, and {he} no longer tried. | Outside, {weather}, and all was peaceful. | Since then the two of {them} have been friends. | {Hero} laughed out loud, and {friend} laughed as well. | The kitchen was warm, and there was enough soup for everyone. | "Well," said {friend}, "that was not so bad." {Hero} had to agree. | A {animal} yawned, and somebody put out the lamp. | {Hero} put a small stone from that day into a tin box and kept it. | And when trouble came round again, {they} were ready for it. | The stars came out one by one, and {hero} counted them until {he} fell asleep. | There was still a lot to do, but it could wait until tomorrow. | "What a day," {hero} said, and {friend} nodded."""
FIRSTS = """The {thing} was still warm when {name} picked it up. | On the morning of {his} tenth birthday, {name} found a {thing} on the stairs. | Nobody had opened the door near {spot} for a hundred years. | It was the quietest {time} that anyone could remember. | "Whatever you do," said the {fkind}, "do not touch the {thing}." | I never believed in luck until I met a {animal}. | The train stopped in the middle of nowhere. | {Weather}, and {name} was late again. | The last thing I expected to see near {spot} was a {fkind}. | There were three rules in our house, and I had broken two of them. | {name} woke up and knew at once that something was missing. | The {animal} came back on a {adj} {time}. | I opened the box and found a {thing} inside. | Once every seven years, the bells of {town} rang by themselves. | She had kept the secret for thirty years. | He counted the stars, and there was one too many. | As the clock struck midnight, the {thing} began to glow. | My grandmother always said that {spot} was no place for a {child}."""
SENSES = """The first thing one notices is the smell of {smell} and {smell}. | Light falls in long stripes across the floor. | Near {spot}, a {animal} lies asleep and does not care who comes by. | The colours are {adj}: deep blue, rust red and a yellow like butter. | Somewhere a door closes, and the sound travels a long way. | A {thing} lies on a table, as if its owner had only just left. | If you stand still, you can hear water dripping, slowly and evenly. | The walls are rough under the hand and a little warm. | A {fkind} sits by {spot} and tells a child about {about}. | In the evening the shadows grow until they reach {spot}. | There is a taste of {smell} on the wind. | Everything seems {adj}, and nothing is in a hurry. | Children run by, their voices bright as bells. | Far off one can see {spot}, small and pale. | At night the lamps are lit one by one, and the windows turn to gold."""
COUPLETS = """The morning comes across the hill,/the little town is sleeping still. | A bird is singing in the tree,/it sings for you, it sings for me. | The rain has washed the window clean,/the fields have never been so green. | I walk along the silver sand/and hold a pebble in my hand. | The wind goes softly through the door/and draws its pictures on the floor. | A candle burns, the night is deep,/and all the world has gone to sleep. | We build a boat, we sail away/and come back home another day. | The stars are out, the moon is high,/a paper kite is in the sky. | And if you ask me what I know,/I say that even stones can grow. | The winter brings its coat of white,/the fire keeps us warm at night. | I wrote your name upon the ice,/it melted once, I wrote it twice. | The road is long, the bag is light,/we reach the river by the night. | My mother hums an ancient song/and all of us can sing along. | There is a time to laugh and play,/a time to put the toys away. | The clock has stopped, the cat has yawned,/we talk together until dawn. | A little hope, a little bread,/a hundred stories in my head. | So take my hand and do not fear,/the day will come, the dark is near. | The leaves come down in red and gold,/the year, like us, is growing old. | The river never asks us why,/it takes the colour of the sky. | A door stands open in the wall,/I hear a distant voice that calls."""
VERSES = """A song about {about} I bring,/as simple as the bells that ring. | Who thinks about {about} today/will find it hard to look away. | About {about} the poets write/when they are wide awake at night. | They told me of {about}, my friend,/a tale that has no proper end. | I heard about {about} one day/and put my other books away."""
TALK = """Have you thought about {about} lately?/Every day. It will not leave me alone. | What frightens you most?/That nobody will remember what we did here. | Do you still have the {thing}?/Of course. I keep it under my pillow. | You are late again./The road past {spot} was closed, so I had to walk. | Would you do it again?/Yes, but I would bring better shoes. | I do not believe a word of it./You do not have to. Just come and look. | Why did you never write to me?/I wrote every week. I was only too shy to send the letters. | Listen! Did you hear that?/It is only a {animal}. Sit down and finish your tea. | How do you know so much?/I ask people questions, and then I keep quiet. | Can you keep a secret?/I have kept yours for ten years. | What shall we do now?/We could wait, or we could begin. | I am {feel}, if I am honest./So am I. Let us be it together. | Is it far?/As far as {spot}, and then a little more. | What would you change, if you could?/Only the ending, and perhaps the weather."""
LAST_TALK = """Then it is settled./It is. I will meet you at {spot} at sunrise. | Thank you for listening./Thank you for telling me the truth about {about}. | So, are we friends?/We always were. | Good night, then./Good night. And do not forget your {thing}."""
LISTS = {
    "time": "morning; evening; autumn day; winter night; summer afternoon; spring morning; rainy day; night; Saturday; cold morning; windy evening; long afternoon",
    "adj": "strange; lovely; quiet; crooked; bright; lonely; gentle; odd; golden; dusty; wild; pale; cheerful; stubborn; curious; peaceful; shabby; wonderful",
    "feel": "nervous; curious; lonely; tired; restless; worried; uneasy; homesick; impatient; puzzled; unsure",
    "glad": "happy; calm; grateful; proud; tired but content; hopeful; light; thankful; merry; rested",
    "trait": "friendly; patient; clever; shy; serious; lively; thoughtful; plump; slender; polite; sleepy; bold; dreamy",
    "look": "kind eyes; a torn sleeve; very large hands; a quiet voice; silver hair; a crooked smile; a red nose; ink on every finger; a patched coat; bright green boots",
    "smell": "bread; smoke; oranges; wet earth; lamp oil; cinnamon; salt; old paper; mint; cold iron; fresh paint; roses",
}
STORY_ASKS = """Write a short story about {about}. | Tell me a story about {about}. | Tell me a bedtime story about {about}. | Can you write me a story about {about}? | Write a story. It should have something to do with {about}. | Please write a short, simple story about {about}. | I would like to read a story about {about}. | Write a captivating short story about {about}. | Compose a short tale about {about} for children. | Could you make up a story about {about}? | Write a {genre} story about {about}. | Write a {genre} story in which a {kind} {gist}. | Can you write me a story in which a {kind} {gist}? | Write a short story about a {kind} who {gist}. | Tell me a tale of a {kind} who {gist}. | Write about {about} in the form of a short story set in {place}. | Imagine a {kind} who {gist}. Write the story. | Write me a story with {about} in it."""
FIRST_PERSON_ASKS = "Write a personal story about {about}. | Write a first-person story about {about}. | Tell a story about {about} from the point of view of a {kind}. | Write a short story about {about} in the first person."
BEGIN_ASKS = 'Write a captivating short story beginning with the sentence: {first} | Write a story that begins with this sentence: "{first}" | Write a short story starting with the line: {first} | Begin a story with the words "{first}" | Use this as the first sentence of a story: {first}'
KIND_ASKS = {
    "part": "Write the opening paragraph of a {genre} story about {about}. | Write the first paragraph of a novel about {about}. | How would a {genre} novel about {about} begin? | Write an opening paragraph about {about} that makes people want to read on.",
    "scene": "Write a scene about {about}. | Write a scene in which a {kind} {gist}. | Write a short scene of a {genre} novel about {about}. | Write a scene set in {place}.",
    "diary": "Write a diary entry about {about}. | Write a diary entry of a {kind} who {gist}. | Write a journal entry about {about}.",
    "describe": "Describe {place} in vivid detail. | Write a description of {spot} and its surroundings. | Describe a walk through {place}, using all the senses. | Write a descriptive paragraph about {place}.",
    "poem": "Write a poem about {about}. | Write a short poem about {about} with rhymes. | Can you write a simple poem about {about}? | Compose a poem on the subject of {about}.",
    "talk": "Write a dialogue between a {kind} and a {fkind}. | Write a short conversation between a {kind} and a {fkind} about {about}. | Write a dialogue between {name} and {friend}.",
}
TITLES = "{name} and the {Thing} | The {Thing} | The {Fkind} of {town} | A {Thing} for {friend} | The {Time} | Beyond {town} | The {Animal} | What {name} Found | {name} and {friend} | The Tale of the {Animal} | A Story About {about}"
SIGNS = {"space": r"space|planet|star|alien|robot|future|time travel|galaxy|moon|rocket|machine", "fantasy": r"dragon|wizard|magic|witch|castle|king|queen|prince|knight|fairy|spell|unicorn", "sea": r"\bsea|ship|ocean|sail|island|pirate|fish|beach", "city": r"city|train|detective|crime|murder|office|music"}  # fmt: skip
CALLS = {"case": "detective|mystery|crime", "robot": "robot|machine", "journey": "travel|journey", "lastday": "last day", "dark": "lantern|lamp|light"}  # fmt: skip
GENRES = {"space": "science fiction", "fantasy": "fantasy", "sea": "adventure"}


class Plot(NamedTuple):
    """A plot: settings it fits, what happens, words that call for it, and acts of beats of wordings."""

    settings: list[str]
    gist: str
    sign: str
    acts: list[list[list[str]]]


def alternatives(text: str) -> list[str]:
    """The wordings of a beat."""
    return [part.strip() for part in text.strip().split(" | ")]


def read_settings(text: str) -> dict[str, dict[str, list[str]]]:
    """Setting -> slot -> choices."""
    out: dict[str, dict[str, list[str]]] = {}
    for line in text.strip().splitlines():
        if line.startswith("#"):
            out[line[2:]] = slots = {}
        else:
            key, _, values = line.partition(" = ")
            slots[key] = values.split("; ")
    return out


def read_plots(text: str) -> list[Plot]:
    """The plots, each with the words of a topic that call for it."""
    out = []
    for block in re.split(r"^# ", text.strip(), flags=re.M)[1:]:
        head, *acts = block.strip().splitlines()
        label, _, gist = head.partition(" | ")
        name, _, needs = label.partition("@")
        sign = CALLS.get(name.strip(), rf"\b{name.strip()}\b")
        beats = [[alternatives(b) for b in act[2:].split(" || ")] for act in acts]
        out.append(Plot(needs.split(",") if needs else [*SETTINGS], gist, sign, beats))
    return out


SETTINGS = read_settings(SETTINGS_TEXT)
PLOTS = read_plots(PLOTS_TEXT)
SHARED = {key: value.split("; ") for key, value in LISTS.items()}
ON = r"\b([Ii])n (a farm|the (?:island|rocky|starship|space station|dusty|old quarter of the)|a (?:small moon|crowded|busy))"
AT = r"\b([Ii])n (the (?:harbour|lighthouse) )"
FIXED = ("place", "kind", "fkind", "thing", "animal")


def a_an(text: str) -> str:
    """Put "a" or "an" as the next word asks for."""

    def pick(found: re.Match[str]) -> str:
        after = found.group(2).lower()
        vowel = after[0] in "aeiou" and not re.match(r"(uni|use|usu|eu|one|once)", after)
        vowel = vowel or bool(re.match(r"(hour|honest|heir)", after))
        return f"{found.group(1)}{'n' if vowel else ''} {found.group(2)}"

    return re.sub(r"\b([Aa])n? (?=\w)(\w+)", pick, text)


class Cast:
    """The people, place and things of one text, and the words already used in it."""

    def __init__(self, rng: Random, about: str, first: str = "", i: str = "", at: str = "") -> None:
        self.rng, self.about = rng, about.strip().rstrip(".!?")
        self.pools: dict[str, list[str]] = {}
        female = self.known(first)
        self.i = i == "I" or bool(re.match(r"\W*(I|My|We|Our)\b", first))
        fits = [k for k, sign in SIGNS.items() if re.search(sign, self.about.lower() + first)]
        self.setting = at or rng.choice(fits if fits and rng.random() < 0.8 else [*SETTINGS])
        free = [p for p in PLOTS if self.setting in p.settings]
        self.plot = rng.choice([p for p in free if re.search(p.sign, self.about)] or free)
        self.slots = self.people(female, first)
        self.slots["town"] = rng.choice(HEADS) + rng.choice(TAILS)
        self.slots["genre"] = GENRES.get(self.setting, "simple")
        for key in FIXED:
            self.slots[key] = self.fill(rng.choice(SETTINGS[self.setting][key]))
        self.slots["gist"] = self.fill(self.plot.gist)

    def known(self, first: str) -> bool:
        """Whether the hero is a girl, after the pronouns of the first sentence if it has some."""
        if re.search(r"\b([Ss]he|[Hh]er)\b", first):
            return True
        return not re.search(r"\b([Hh]e|[Hh]is|[Hh]im)\b", first) and self.rng.random() < 0.5

    def people(self, female: bool, first: str) -> dict[str, str]:
        """Names and pronouns; a name in the first sentence is the hero's."""
        name = self.rng.choice(GIRLS if female else BOYS)
        for word in re.findall(r"\w+", first):
            if word in GIRLS or word in BOYS:
                name, female = word, word in GIRLS
        other = self.rng.random() < 0.5
        friend = self.rng.choice([n for n in (GIRLS if other else BOYS) if n != name])
        her = ("she", "her", "her", "herself") if female else ("he", "him", "his", "himself")
        words = ("I", "me", "my", "myself") if self.i else her
        out = dict(zip(("he", "him", "his", "self"), words, strict=True))
        out |= {"name": name, "hero": "I" if self.i else name, "friend": friend}
        out |= dict(zip(("they", "them", "their"), ("we", "us", "our") if self.i else ("they", "them", "their"), strict=True))  # fmt: skip
        out |= {"fhe": "she" if other else "he", "fhis": "her" if other else "his"}
        return out | {"child": "girl" if female else "boy", "prince": "princess" if female else "prince"}  # fmt: skip

    def fresh(self, key: str, choices: list[str]) -> str:
        """A choice that this text has not used yet, as long as there are some."""
        pool = self.pools.setdefault(key, [])
        if not pool:
            pool.extend(self.rng.sample(choices, len(choices)))
        return pool.pop()

    def fill(self, text: str) -> str:
        """Fill the slots of a wording."""

        def slot(found: re.Match[str]) -> str:
            key = found.group(1)
            low = key[0].lower() + key[1:]
            if key == "about":
                return found.group(0)
            if key == "MEET":
                return self.say(MEET)
            if low in self.slots:
                value = self.slots[low]
            else:
                value = self.fresh(low, SETTINGS[self.setting].get(low) or SHARED[low])
            value = self.fill(value)
            return value if key == low else value[0].upper() + value[1:]

        return re.sub(r"\{(\w+)\}", slot, text)

    def say(self, text: str) -> str:
        """One of the wordings, not used before, filled."""
        return self.fill(self.fresh(text, alternatives(text)))

    def done(self, text: str) -> str:
        """The finished text: articles set, the subject put in, each sentence begun with a capital."""
        text = re.sub(
            ON,
            lambda m: ("On " if m[1] == "I" else "on ") + m[2],
            re.sub(AT, lambda m: ("At " if m[1] == "I" else "at ") + m[2], a_an(text)),
        )
        text = text.replace("{about}", self.about)
        return re.sub(r"(^|\n)([\"“]?)([a-z])", lambda m: m[1] + m[2] + m[3].upper(), text)

    def act(self, beats: list[list[str]], extra: str, places: set[int]) -> list[str]:
        """The sentences of an act, with an extra one after the beats in `places`."""
        out = []
        for i, beat in enumerate(beats):
            out.append(self.fill(self.rng.choice(beat)))
            if i in places:
                out[-1] += f" {self.say(extra)}"
        return out

    def paragraphs(self, first: str = "") -> list[str]:
        """The story, as paragraphs that are not yet `done`."""
        rng, (alone, together) = self.rng, self.plot.acts
        openings = (AFTER_I if self.i else AFTER) if first else (OPEN_I if self.i else OPEN)
        parts = [f"{first} {self.say(openings)}".strip()]
        if rng.random() < 0.4:
            parts[0] += " " + self.fill(rng.choice(("{Weather}.", "Outside, {weather}.")))
        parts += self.act(alone, MOOD, set(rng.sample(range(len(alone)), rng.randint(1, 2))) - {0})
        friendly = together[0] == ["{MEET}"] and rng.random() < 0.8
        parts += self.act(together[:2], BOND, {1} if friendly else set())
        parts += self.act(together[2:], TURN, {0} if rng.random() < 0.6 and together[3:] else set())
        parts += [self.say(AGAIN), self.say(END)][: 1 + (rng.random() < 0.8)]
        breaks = sorted(rng.sample(range(2, len(parts)), rng.randint(1, 4)))
        edges = zip([0, *breaks], [*breaks, len(parts)], strict=True)
        return [" ".join(parts[i:j]) for i, j in edges]


def sound(text: str) -> bool:
    """Whether a text has a story's length and repeats neither a sentence nor many word groups."""
    words = text.split()
    groups = [tuple(words[i : i + 4]) for i in range(len(words) - 3)]
    parts = [s for s in re.split(r"(?<=[.!?])\"?\s+", text) if len(s) > 12]
    fair = len(set(groups)) > 0.95 * len(groups) and len(set(parts)) == len(parts)
    return fair and 120 <= len(words) <= 260


def told(
    rng: Random, about: str, first: str = "", i: str = "", at: str = ""
) -> tuple[Cast, list[str]]:
    """A cast and its story's paragraphs."""
    for _ in range(20):
        cast = Cast(rng, about, first, i, at)
        out = [cast.done(p) for p in cast.paragraphs(first and "{first}")]
        out[0] = out[0].replace("{first}", first)
        if sound("\n\n".join(out)):
            break
    return cast, out


def tale(rng: Random, about: str, first: str = "") -> str:
    """A short story in which `about`, a noun phrase, is spoken of; it begins with `first` if given."""
    person = "I" if not first and rng.random() < 0.25 else ""
    return "\n\n".join(told(rng, about, first, person)[1])


def ask(cast: Cast, text: str) -> str:
    """A request for a text of this cast."""
    return cast.done(cast.say(text))


def poem(cast: Cast) -> str:
    """Eight to twelve lines in rhyming pairs."""
    pairs = [cast.say(VERSES), *(cast.say(COUPLETS) for _ in range(cast.rng.randint(3, 5)))]
    cut = cast.rng.choice((2, 2, 3))
    groups = ["/".join(pairs[i : i + cut]) for i in range(0, len(pairs), cut)]
    return cast.done("\n\n".join(groups).replace("/", "\n"))


def conversation(cast: Cast, one: str, two: str) -> str:
    """A dialogue of two people, each line with its speaker."""
    lines = [cast.say(TALK) for _ in range(cast.rng.randint(3, 6))] + [cast.say(LAST_TALK)]
    out = []
    for line in lines:
        left, right = line.split("/")
        out += [f"{one}: {left}", f"{two}: {right}"]
    return cast.done("\n".join(out))


def begun(rng: Random, about: str) -> tuple[str, str]:
    """A request that gives the first sentence, and the story."""
    cast = Cast(rng, about)
    first = cast.done(cast.say(FIRSTS))
    return cast.say(BEGIN_ASKS.replace("{first}", "{about}")).replace("{about}", first), "\n\n".join(told(rng, about, first, "", cast.setting)[1])  # fmt: skip


def continued(rng: Random, about: str) -> tuple[str, str]:
    """A request that gives a beginning, and the rest of the story."""
    _, parts = told(rng, about)
    head = rng.choice(("Continue the story:", "Continue this story:", "How does this story go on?"))
    return f"{head} {parts[0]}", "\n\n".join(parts[1:])


def other(rng: Random, about: str) -> tuple[str, str]:
    """A request for something that is not a whole story, and the answer."""
    kind = rng.choice(["part", "part", "scene", "diary", "describe", "poem", "poem", "talk"])
    cast, parts = told(rng, about, i="I" if kind == "diary" else "")
    wish = ask(cast, KIND_ASKS[kind])
    if kind == "part":
        return wish, " ".join(parts[: 1 + (len(parts[0]) < 250)])
    if kind == "diary":
        return wish, f"{ask(cast, 'Dear diary, | {Time}, late. | {Time}. | Today was a {adj} day.')}\n\n" + "\n\n".join(parts)  # fmt: skip
    if kind == "describe":
        return wish, cast.done(" ".join(cast.say(SENSES) for _ in range(rng.randint(6, 9))))
    if kind == "poem":
        return wish, poem(cast)
    if kind == "talk":
        named = re.search(r"between [A-Z]", wish)
        one, two = (cast.slots[k] for k in (("name", "friend") if named else ("kind", "fkind")))
        return wish, conversation(cast, one[0].upper() + one[1:], two[0].upper() + two[1:])
    return wish, "\n\n".join(parts[:-1])


def request(rng: Random, topic: Callable[[], str]) -> tuple[str, str]:
    """A user's request for a text and the text."""
    about, draw = topic(), rng.random()
    if draw < 0.15:
        return begun(rng, about)
    if draw < 0.20:
        return continued(rng, about)
    if draw < 0.45:
        return other(rng, about)
    person = "I" if draw < 0.58 else ""
    cast, parts = told(rng, about, i=person)
    return ask(cast, FIRST_PERSON_ASKS if person else STORY_ASKS), "\n\n".join(parts)


def raw(rng: Random, topic: Callable[[], str]) -> str:
    """A story with a title line."""
    cast, parts = told(rng, topic(), i="I" if rng.random() < 0.2 else "")
    title = cast.done(cast.say(TITLES))
    title = " ".join(
        w if i and w in ("a", "an", "about", "of", "for", "the", "and") else w[0].upper() + w[1:]
        for i, w in enumerate(title.split())
    )
    return "\n\n".join([title, *parts])
